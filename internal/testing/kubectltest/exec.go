package kubectltest

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// streams are the streams of a command that runs in a container.
type streams struct {
	stdout, stderr, status io.Writer
	end                    func() error
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	// API servers before 1.35 check the verb "get" for a GET that is upgraded to a WebSocket, and
	// "create" for a POST that is upgraded to SPDY.
	verb := "create"
	if r.Method == http.MethodGet {
		verb = "get"
	}
	if !s.allowed(w, r, verb, "exec") {
		return
	}
	pod, fault := s.pod(w, r)
	switch {
	case pod == nil:
		return // The request has been answered.
	case fault == KubeletAway:
		fail(w, apierrors.NewInternalError(errors.New("error dialing backend: dial tcp 192.0.2.7:10250: i/o timeout")))
		return
	case fault == NotRunning:
		fail(w, apierrors.NewInternalError(fmt.Errorf("unable to upgrade connection: container not found (%q)", pod.Spec.Containers[0].Name)))
		return
	case fault == NoWebSocket && wsstream.IsWebSocketRequest(r):
		http.Error(w, "websocket: not a websocket handshake", http.StatusBadRequest)
		return
	}
	taken := &hijacked{ResponseWriter: w}
	to, err := open(taken, r)
	if err != nil {
		return // The request has been answered.
	}
	defer func() { _ = to.end() }() // The client may already have closed it.
	container, command := r.URL.Query().Get("container"), r.URL.Query()["command"]
	switch {
	case fault == Cut:
		_, _ = to.stdout.Write([]byte("half an ans"))
		if secured, is := taken.connection.(*tls.Conn); is {
			_ = secured.NetConn().Close() // Below TLS, as if the machine had failed.
		}
	case fault == NeverAnswers:
		<-s.ended
	case fault == NoProgram:
		finish(to.status, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: 500, Message: fmt.Sprintf(
			"Internal error occurred: failed to exec in container: exec: %q: stat %s: no such file or directory", command[0], command[0])})
	default:
		status := metav1.Status{Status: metav1.StatusSuccess}
		if code := s.run(pod, container, command, to.stdout, to.stderr); code != 0 {
			status = metav1.Status{
				Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
				Message: fmt.Sprintf("command terminated with non-zero exit code: exit code %d", code),
			}
		}
		finish(to.status, status)
	}
}

// hijacked records the connection that a protocol takes over.
type hijacked struct {
	http.ResponseWriter
	connection net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffer, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.connection = connection
	return connection, buffer, err
}

func finish(to io.Writer, status metav1.Status) {
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	if err != nil {
		panic(err) // strings and numbers
	}
	_, _ = to.Write(text) // An error means that the client is gone.
}

// open opens a WebSocket with a channel for each stream, or waits for the streams that an SPDY
// client creates.
func open(w http.ResponseWriter, r *http.Request) (streams, error) {
	if !wsstream.IsWebSocketRequest(r) {
		return openSPDY(w, r)
	}
	channels := make([]wsstream.ChannelType, remotecommand.StreamResize+1)
	channels[remotecommand.StreamStdIn], channels[remotecommand.StreamResize] = wsstream.ReadChannel, wsstream.ReadChannel
	for _, i := range []int{remotecommand.StreamStdOut, remotecommand.StreamStdErr, remotecommand.StreamErr} {
		channels[i] = wsstream.WriteChannel
	}
	connection := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true, Channels: channels}})
	_, made, err := connection.Open(w, r)
	if err != nil {
		return streams{}, err
	}
	return streams{
		stdout: made[remotecommand.StreamStdOut], stderr: made[remotecommand.StreamStdErr], status: made[remotecommand.StreamErr],
		end: connection.Close,
	}, nil
}

func openSPDY(w http.ResponseWriter, r *http.Request) (streams, error) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return streams{}, err
	}
	const wanted = 3 // stdout, stderr, and the error stream with the status
	made := make(chan httpstream.Stream, wanted)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		made <- stream
		return nil
	})
	if connection == nil {
		return streams{}, errors.New("no connection") // The request has been answered.
	}
	to := streams{end: connection.Close}
	for range wanted {
		select {
		case stream := <-made:
			switch stream.Headers().Get(v1.StreamType) {
			case v1.StreamTypeStdout:
				to.stdout = stream
			case v1.StreamTypeStderr:
				to.stderr = stream
			case v1.StreamTypeError:
				to.status = stream
			}
		case <-connection.CloseChan():
			return streams{}, errors.New("the client is gone")
		}
	}
	return to, nil
}
