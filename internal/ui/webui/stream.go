package webui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// sendTime is the time in which a reader must accept an event. After that Send fails, and the
// reader connects again.
const sendTime = 10 * time.Second

// Stream sends server-sent events to one reader. Only one goroutine may use it.
type Stream struct {
	rw      http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	retry   time.Duration
}

// NewStream begins an answer that is a stream. A page that loses the stream tries again after
// retry.
func NewStream(rw http.ResponseWriter, now func() time.Time, retry time.Duration) Stream {
	s := Stream{rw, http.NewResponseController(rw), now, retry}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no")
	_ = s.control.SetReadDeadline(time.Time{}) // A server's limit for reading requests must not end a stream.
	return s
}

// Send sends an event with a JSON document. It returns an error if the reader is gone or too slow.
func (s Stream) Send(event string, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("retry: %d\nevent: %s\ndata: %s\n\n", s.retry.Milliseconds(), event, data))
}

// Beat sends a comment, so that both sides notice when the other is gone.
func (s Stream) Beat() error { return s.write(": still there\n\n") }

func (s Stream) write(text string) error {
	_ = s.control.SetWriteDeadline(s.now().Add(sendTime))
	if _, err := s.rw.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
