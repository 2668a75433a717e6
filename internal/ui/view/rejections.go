package view

import "github.com/paddock-project/paddock/internal/base/terminal"

// FleetRejections counts the pods of one class that nodes of one kind rejected for one cause.
type FleetRejections struct {
	Kind  string `json:"kind"`
	Class string `json:"class"`
	Cause string `json:"cause"`
	Pods  int64  `json:"pods"`
	Nodes int    `json:"nodes"`
}

// RejectionsText formats rejections for people. since is set if they are the rejections since an
// earlier time.
func RejectionsText(all []FleetRejections, since bool, style terminal.Style) string {
	switch {
	case len(all) == 0 && since:
		return "No node has rejected a pod since then.\n"
	case len(all) == 0:
		return "No node has rejected a pod since its agent started.\n"
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "KIND"},
		{Title: "PODS", Align: terminal.Right},
		{Title: "NODES", Align: terminal.Right},
		{Title: "CLASS"},
		{Title: "CAUSE"},
	}}
	for _, r := range all {
		t.Row(r.Kind, grouped(r.Pods), grouped(int64(r.Nodes)), r.Class, r.Cause)
	}
	return t.Text(style)
}
