package webui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// sendTime is how long a reader may take for an event. After that Send fails, and the reader
// connects again.
const sendTime = 10 * time.Second

// Stream sends server-sent events to one reader. It is for one goroutine.
type Stream struct {
	rw      http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	retry   time.Duration
}

// NewStream begins an answer that is a stream. A page that loses it tries again after the time
// retry.
func NewStream(rw http.ResponseWriter, now func() time.Time, retry time.Duration) Stream {
	s := Stream{rw, http.NewResponseController(rw), now, retry}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no")
	_ = s.control.SetReadDeadline(time.Time{}) // A server's limit for reading a request is no limit for a stream.
	return s
}

// Send sends an event with a document as JSON. The error is that of a reader who is gone or too
// slow.
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
