package silencer

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// askIrqbalanceEvery is how often irqbalance is asked whether it still has the ban list. It loses
// it when it restarts; then it reads the one of its environment file.
const askIrqbalanceEvery = 10 * time.Second

// bans is what was sent to irqbalance.
type bans struct {
	sent  cpuset.Set
	at    time.Time
	found bool
	err   error
}

// ban lets irqbalance know which CPUs are quiet: at once when they change, and again in case it was
// restarted. Without quiet CPUs it gets an empty list once, and uses its own again. It is never
// restarted: systemd stops a service that is restarted five times in ten seconds (cri-o#9405).
func (s *Silencer) ban(cpus cpuset.Set) {
	b := &s.bans
	if !s.config.Quiet.Irqbalance || s.config.Quiet.Interrupts == quiet.Off || s.config.Irqbalance.Sockets == "" {
		return
	}
	now := s.world.Now()
	if !b.at.IsZero() && cpus.Equal(b.sent) && (cpus.IsEmpty() || now.Sub(b.at) < askIrqbalanceEvery) {
		return
	}
	b.found, b.err = s.world.Ban(s.config.Irqbalance.Sockets, cpus)
	b.sent, b.at = cpus, now
}
