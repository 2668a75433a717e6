package silencer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/node/quiet"
)

// inCluster is the URL of the API server of the pod's environment.
const inCluster = "in-cluster"

// events sends events to the API server.
type events struct {
	api    APIServer
	base   string
	node   string
	client *http.Client
	now    func() time.Time
}

// newEvents returns nil if there is no API server.
func newEvents(c *Config, w World) (*events, error) {
	e := &events{api: c.APIServer, base: c.APIServer.URL, node: c.NodeName, now: w.Now}
	if e.base == "" {
		return nil, nil //nolint:nilnil // Events are then logged.
	}
	if e.base == inCluster {
		host, port := w.Environment("KUBERNETES_SERVICE_HOST"), w.Environment("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fmt.Errorf("apiServer.url: %s: expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in the environment, as in a pod", inCluster)
		}
		e.base = "https://" + net.JoinHostPort(host, port)
	}
	err := checkURL(e.base, c.APIServer.TokenFile)
	if err == nil {
		e.client, err = newClient(c.APIServer.CAFile, false)
	}
	if err != nil {
		return nil, fmt.Errorf("apiServer.%w", err)
	}
	return e, nil
}

// object is a core/v1 Event with the fields that are set.
type object struct {
	APIVersion     string    `json:"apiVersion"`
	Kind           string    `json:"kind"`
	Metadata       meta      `json:"metadata"`
	InvolvedObject reference `json:"involvedObject"`
	Reason         string    `json:"reason"`
	Message        string    `json:"message"`
	Type           string    `json:"type"`
	Source         component `json:"source"`
	First          string    `json:"firstTimestamp"`
	Last           string    `json:"lastTimestamp"`
	Count          int       `json:"count"`
}

type (
	meta struct {
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	}
	reference struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		UID        string `json:"uid,omitempty"`
		FieldPath  string `json:"fieldPath,omitempty"`
	}
	component struct {
		Component string `json:"component"`
		Host      string `json:"host,omitempty"`
	}
)

// mostMessage is the longest message of an event, in bytes (the API server rejects 1 KiB).
const mostMessage = 1000

// send sends an event about a wish of a container that is not carried out.
func (e *events) send(ctx context.Context, c *quiet.Container, p *quiet.Problem) error {
	at := e.now().UTC().Format(time.RFC3339)
	message := p.Text
	if len(message) > mostMessage {
		message = strings.ToValidUTF8(message[:mostMessage], "")
	}
	body, err := json.Marshal(object{
		APIVersion: "v1", Kind: "Event", Metadata: meta{c.Pod + ".", c.Namespace},
		InvolvedObject: reference{"v1", "Pod", c.Namespace, c.Pod, c.UID, "spec.containers{" + c.Name + "}"},
		Reason:         "NotQuiet", Message: message, Type: "Warning", Source: component{"paddock-quiet", e.node}, First: at, Last: at, Count: 1,
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/api/v1/namespaces/"+url.PathEscape(c.Namespace)+"/events", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if err := authorize(request, e.api.TokenFile); err != nil {
		return fmt.Errorf("apiServer.%w", err)
	}
	answer, err := e.client.Do(request)
	if err != nil {
		return err
	}
	_, reading := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode != http.StatusCreated {
		return errors.Join(fmt.Errorf("the API server answered %s: expected permission to create events in namespace %s", answer.Status, c.Namespace), answer.Body.Close())
	}
	return errors.Join(reading, answer.Body.Close())
}
