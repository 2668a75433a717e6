package podres

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// The messages of the API do not have the NUMA nodes of a claim's devices, whether a container is
// near its devices, moves, or classes of the caches. A client that asks for them with a header of
// the call gets them in the trailer of the answer. Other clients get what the kubelet sends.
const (
	askPlaces    = "paddock-places"
	answerPlaces = "paddock-places-bin"
	askMoves     = "paddock-moves"
	answerMoves  = "paddock-moves-bin"
	// maxExtra limits each trailer in bytes. A device takes about 200 bytes, and so does a move.
	maxExtra = 1 << 20
)

// Extras is the data that the messages of an answer have no fields for. It is empty if the server
// does not know it, e.g. a kubelet.
type Extras struct {
	Places Places
	Moves  []Moves
	// Caches is nil if the server does not divide caches, or is not asked for all pods.
	Caches *Caches
	// CachesError is why Caches is nil although the server divides caches: its answer cannot be
	// read, or cannot be true.
	CachesError error
}

// Place describes where a device of a container is.
type Place struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// Of is the extended resource or the driver of the device. If it is a driver, Pool is set.
	Of     string `json:"of"`
	Pool   string `json:"pool,omitempty"`
	Device string `json:"device"`
	// NUMANodes are the NUMA nodes that the device is near. Empty means that they are not known.
	NUMANodes []int64 `json:"numaNodes,omitempty"`
	// Remote is true if the device is on another NUMA node than CPUs or memory of the container.
	Remote bool `json:"remote,omitempty"`
}

// Places describes where the devices of an answer are.
type Places []Place

// placesOf returns the places of the devices of the given pods.
func placesOf(s *node.State, grants []*node.Grant) (all Places) {
	for _, g := range grants {
		for i, devices := range s.DevicesOf(g) {
			for _, d := range devices {
				p := Place{
					Namespace: g.Pod.Namespace, Pod: g.Pod.Name, Container: g.Pod.Containers[i].Name,
					Of: d.Of(), Pool: d.Pool, Device: d.Name, Remote: d.Distance > node.Near,
				}
				p.NUMANodes = idsOf(d.Nodes)
				all = append(all, p)
			}
		}
	}
	return all
}

// Moves describes the moves of a pod.
type Moves struct {
	Namespace string `json:"-"`
	Pod       string `json:"-"`
	// From and To are the CPUs between which the pod is being moved. They are empty if it is not
	// being moved or has no CPUs of its own. FromNUMANodes and ToNUMANodes are the NUMA nodes of
	// its memory.
	From          string  `json:"fromCPUs,omitempty"`
	To            string  `json:"toCPUs,omitempty"`
	FromNUMANodes []int64 `json:"fromNUMANodes,omitempty"`
	ToNUMANodes   []int64 `json:"toNUMANodes,omitempty"`
	// Moved is how often the pod was moved since the agent started. Last is when the last move
	// ended.
	Moved int        `json:"moved,omitempty"`
	Last  *time.Time `json:"lastMoved,omitempty"`
}

// UnderWay reports whether the pod is being moved.
func (m Moves) UnderWay() bool { return m.To != "" || len(m.ToNUMANodes) > 0 }

// named is the form in which Moves are sent: together with the pod's name.
type named struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Moves
}

// movesOf returns the moves of the given pods. moved may be nil.
func movesOf(grants []*node.Grant, moved func(uid string) (int, time.Time)) (all []named) {
	for _, g := range grants {
		m := Moves{}
		if moved != nil {
			if n, at := moved(g.Pod.UID); n > 0 {
				at = at.UTC()
				m.Moved, m.Last = n, &at
			}
		}
		if g.Moving != nil {
			from := g.Staying()
			m.From, m.To = from.CPUs().String(), g.Moving.CPUs().String()
			m.FromNUMANodes, m.ToNUMANodes = idsOf(from.MemoryNodes()), idsOf(g.Moving.MemoryNodes())
		}
		if m.Moved > 0 || m.UnderWay() {
			all = append(all, named{g.Pod.Namespace, g.Pod.Name, m})
		}
	}
	return all
}

// idsOf returns the IDs of NUMA nodes.
func idsOf(nodes mask.Mask) (ids []int64) {
	for id := range nodes.All() {
		ids = append(ids, int64(id))
	}
	return ids
}

// addExtras adds what the client asked for to the answer. It leaves out extras that are too large.
func (s *Server) addExtras(ctx context.Context, of *node.State, grants ...*node.Grant) {
	asked, _ := metadata.FromIncomingContext(ctx)
	add := func(ask, answer string, extra func() any) {
		if len(asked.Get(ask)) == 0 {
			return
		}
		if text, err := json.Marshal(extra()); err == nil && len(text) <= maxExtra {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(answer, string(text))) // It fails only outside of a call.
		}
	}
	add(askPlaces, answerPlaces, func() any { return placesOf(of, grants) })
	add(askMoves, answerMoves, func() any { return movesOf(grants, s.options.Moved) })
	if of.Machine().Caches().Classes > 1 {
		add(askCaches, answerCaches, func() any { return sendable(CachesOf(of)) })
	}
}

// asking returns the context, the trailer and the option of a call whose answer fills Extras.
func asking(ctx context.Context, to []*Extras) (context.Context, *metadata.MD, grpc.CallOption) {
	trailer := &metadata.MD{}
	if len(to) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, askPlaces, "1", askMoves, "1")
	}
	return ctx, trailer, grpc.Trailer(trailer)
}

// fill reads the trailer of an answer. It ignores what it cannot read, because the answer does not
// depend on it.
func fill(to []*Extras, trailer *metadata.MD) {
	for _, e := range to {
		for _, text := range trailer.Get(answerPlaces) {
			var read Places
			if json.Unmarshal([]byte(text), &read) == nil {
				e.Places = read
			}
		}
		for _, text := range trailer.Get(answerCaches) {
			e.Caches, e.CachesError = decodeCaches([]byte(text))
		}
		for _, text := range trailer.Get(answerMoves) {
			var read []named
			if json.Unmarshal([]byte(text), &read) != nil {
				continue
			}
			e.Moves = nil
			for _, n := range read {
				if n.Moves.Namespace, n.Moves.Pod = n.Namespace, n.Pod; n.Moved > 0 || n.UnderWay() {
					e.Moves = append(e.Moves, n.Moves)
				}
			}
		}
	}
}
