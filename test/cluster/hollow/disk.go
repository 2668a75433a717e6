package hollow

import "sync"

// Disk keeps the bytes that were written last. It is an engine.Store, and survives the agent.
type Disk struct {
	mu   sync.Mutex
	data []byte
}

// Write replaces what is kept.
func (d *Disk) Write(data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data = append([]byte(nil), data...)
	return nil
}

// Read returns what was written last; nil: nothing was.
func (d *Disk) Read() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data
}
