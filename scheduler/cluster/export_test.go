package cluster

// CompareInFull compares a node as if it had never been compared before.
func (c *Cluster) CompareInFull(name string) {
	m := (*c.members.Load())[name]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compared = nil
	m.compare()
}
