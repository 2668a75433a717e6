package fleetpage

import "github.com/paddock-project/paddock/internal/ui/view"

// scarce describes in sentences what the rejected pods lack. Shapes has the shapes with the most
// pods, and Others those that a reader can open after them. More counts all shapes after Shapes,
// and Unlisted those of them that are not in Others. Both are empty if there are none.
type scarce struct {
	Summary  string        `json:"summary"`
	Shapes   []scarceShape `json:"shapes"`
	Others   []scarceShape `json:"others"`
	More     string        `json:"more"`
	Unlisted string        `json:"unlisted"`
}

// scarceShape describes a shape of rejected pods. Which names the only pod, or an example. Account
// describes what is missing, on how many NUMA nodes, and the reservations that keep the pods off.
// Smaller lists smaller requests, and how many of the pods the fleet takes with each.
type scarceShape struct {
	Pods    string   `json:"pods"`
	Asks    string   `json:"asks"`
	Example string   `json:"example"`
	Which   string   `json:"which"`
	Account []string `json:"account"`
	Smaller []string `json:"smaller"`
}

// scarceOf returns nil if no pod is rejected.
func scarceOf(s *view.FleetScarcity) *scarce {
	if s == nil {
		return nil
	}
	out := &scarce{
		Summary: s.Summary(), Shapes: []scarceShape{}, Others: []scarceShape{},
		More: s.More(view.ShapesFirst), Unlisted: s.More(len(s.Shapes)),
	}
	for i := range s.Shapes {
		if of := scarceShapeOf(&s.Shapes[i]); i < view.ShapesFirst {
			out.Shapes = append(out.Shapes, of)
		} else {
			out.Others = append(out.Others, of)
		}
	}
	return out
}

func scarceShapeOf(of *view.FleetScarce) scarceShape {
	out := scarceShape{Pods: of.Count(), Asks: of.Asks(), Example: of.Example, Which: of.Which(), Account: append([]string{}, of.Account()...), Smaller: []string{}}
	for i := range of.Smaller {
		out.Smaller = append(out.Smaller, of.Smaller[i].Text(of))
	}
	return out
}
