package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe returns the two ends of a connection in memory. Unlike those of net.Pipe they are
// buffered: a write never waits for a reader. ttrpc needs this, because both ends write from the
// goroutine that reads. A read waits on a condition variable, so a testing/synctest bubble detects
// that the goroutine is idle.
func newPipe() (_, _ net.Conn) {
	a, b := newStream(), newStream()
	return &end{in: a, out: b}, &end{in: b, out: a}
}

// end is one end of a pipe.
type end struct{ in, out *stream }

// Read implements net.Conn. It returns io.EOF when the other end was closed and everything was
// read, and net.ErrClosed when this end was closed.
func (e *end) Read(p []byte) (int, error) {
	s := e.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.bytes) == 0 && s.ended == nil && len(p) > 0 {
		s.more.Wait()
	}
	if s.ended == net.ErrClosed { //nolint:errorlint // It is stored by close, unwrapped.
		return 0, s.ended
	}
	if len(s.bytes) == 0 && len(p) > 0 {
		return 0, s.ended
	}
	n := copy(p, s.bytes)
	if s.bytes = s.bytes[n:]; len(s.bytes) == 0 {
		s.bytes = nil // An idle connection keeps no memory.
	}
	return n, nil
}

// Write implements net.Conn. It copies p.
func (e *end) Write(p []byte) (int, error) {
	s := e.out
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, net.ErrClosed
	}
	s.bytes = append(s.bytes, p...)
	s.more.Signal()
	return len(p), nil
}

// Close ends both directions. The other end can still read what was written before.
func (e *end) Close() error {
	e.in.close(net.ErrClosed)
	e.out.close(io.EOF)
	return nil
}

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn. There are no deadlines.
func (e *end) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn. There are no deadlines.
func (e *end) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn. There are no deadlines.
func (e *end) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// address is the address of both ends of a pipe.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "pipe" }

// String implements net.Addr.
func (address) String() string { return "in memory" }

// stream is one direction of a pipe.
type stream struct {
	mu    sync.Mutex
	more  *sync.Cond
	bytes []byte
	// ended is the error that a read returns: at once for net.ErrClosed, after the last byte for
	// io.EOF. It is nil while the stream is open.
	ended error
}

func newStream() *stream {
	s := &stream{}
	s.more = sync.NewCond(&s.mu)
	return s
}

// close ends the stream. If the reading end closes it, the bytes that were not read yet are
// dropped.
func (s *stream) close(as error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil || as == net.ErrClosed { //nolint:errorlint // It is the sentinel itself.
		s.ended = as
	}
	if as == net.ErrClosed { //nolint:errorlint // It is the sentinel itself.
		s.bytes = nil
	}
	s.more.Broadcast()
}
