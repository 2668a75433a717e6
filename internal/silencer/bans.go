package silencer

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// askIrqbalanceEvery is how often the process asks irqbalance whether it still has the ban list.
// irqbalance loses the list when it restarts, and then reads the one of its environment file.
const askIrqbalanceEvery = 10 * time.Second

// bans is the list that irqbalance got last.
type bans struct {
	sent  cpuset.Set
	at    time.Time
	found bool
	err   error
}

// ban sends the quiet CPUs to irqbalance: at once when they change, and again in case irqbalance
// was restarted. Without quiet CPUs, irqbalance gets an empty list once, and uses its own again.
// The process never restarts irqbalance, because systemd stops a service that is restarted five
// times in ten seconds (cri-o#9405).
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
