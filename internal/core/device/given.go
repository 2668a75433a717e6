package device

import (
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// GivenHints describes the NUMA masks that are near all given devices (R-DEV-2, R-DEV-3). The
// devices are of one extended resource or driver, each listed once. all has the NUMA nodes of the
// machine. Devices without a known NUMA node of the machine do not count (R-DEV-4). If no device
// counts, the kind is Any.
//
// Masks have only NUMA nodes that a device of the stock is near, as in Usage.Hints. A mask is
// preferred if it has the smallest number of NUMA nodes that as many devices of the stock can be
// near.
func GivenHints(stock request.Stock, given []*request.Given, all mask.Mask) hint.Set {
	f := hint.Set{Resource: stock.Of}
	count := 0
	for i := range given {
		nodes := given[i].Nodes & all
		if nodes.IsEmpty() {
			continue
		}
		f.MustTouch(nodes)
		count++
		f.Candidates |= nodes
	}
	if count == 0 {
		return f
	}
	if len(stock.Places) == 0 {
		near := make([]mask.Mask, len(given))
		for i := range given {
			near[i] = given[i].Nodes & all
		}
		stock = request.StockOf(stock.Of, near)
	}
	for _, p := range stock.Places {
		f.Candidates |= p.Nodes & all
	}
	f.Kind, f.Preferred = hint.Fits, fewestNodes(stock, f.Candidates, count)
	return f
}

// fewestNodes returns the smallest number of the NUMA nodes that are near at least count devices of
// the stock. If the stock has too few devices, it returns the number of all NUMA nodes.
func fewestNodes(stock request.Stock, nodes mask.Mask, count int) int {
	var near [mask.MaxNode + 1]int64 // devices that are near only one NUMA node
	need := hint.Need{Resource: stock.Of, Amount: int64(count), Offer: near[:nodes.Highest()+1]}
	for _, p := range stock.Places {
		switch at := p.Nodes & nodes; {
		case p.Devices >= count && !at.IsEmpty():
			return 1
		case at.Len() == 1:
			near[at.Lowest()] += int64(p.Devices)
		case at.Len() > 1:
			need.Shared = append(need.Shared, hint.SharedOffer{Nodes: at, Amount: int64(p.Devices)})
		}
	}
	if size, ok := hint.MinSize(nodes, []hint.Need{need}); ok {
		return size
	}
	return nodes.Len()
}
