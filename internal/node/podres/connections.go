package podres

import (
	"net"
	"sync"
)

// connections is a listener that keeps track of its open connections.
type connections struct {
	net.Listener

	mu   sync.Mutex
	open map[*connection]bool
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k := &connection{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[k] = true
	return k, nil
}

// close closes all open connections.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.open {
		_ = k.Conn.Close() // The server ends anyway.
	}
}

type connection struct {
	net.Conn
	of *connections
}

// Close implements net.Conn.
func (k *connection) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k)
	k.of.mu.Unlock()
	return k.Conn.Close()
}
