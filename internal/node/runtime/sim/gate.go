package sim

import "sync"

// gate admits either many requests of the kubelet at a time, or one synchronisation of a plugin.
// While a synchronisation waits, no new request enters. So no plugin is synchronised after the
// reply that creates a container and before the container is in the store. It corresponds to
// containerd's BlockPluginSync.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	inside  int  // requests that are being handled
	waiting int  // synchronisations that wait
	alone   bool // a synchronisation is in progress
}

// enter begins a request, leave ends it.
func (g *gate) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.alone || g.waiting > 0 {
		g.changed.Wait()
	}
	g.inside++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.changed.Broadcast()
}

// shut begins a synchronisation, open ends it.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	for g.alone || g.inside > 0 {
		g.changed.Wait()
	}
	g.waiting--
	g.alone = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone = false
	g.changed.Broadcast()
}
