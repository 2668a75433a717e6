package nodemap

import (
	_ "embed" // the page
	"html/template"
	"io"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/ui/view"
)

//go:embed map.html
var mapPage string

var mapTemplate = template.Must(template.New("map").Parse(mapPage))

// HTML writes a self-contained page: the picture, and a table of the same data with full names. The
// page has no scripts and loads nothing.
func (m Map) HTML(out io.Writer) error {
	var picture strings.Builder
	if err := m.SVG(&picture, false); err != nil {
		return err
	}
	return mapTemplate.Execute(out, map[string]any{
		"Map":     m,
		"Style":   template.CSS(m.style()),         //nolint:gosec // our own style sheet
		"Picture": template.HTML(picture.String()), //nolint:gosec // SVG escapes every name
		"Title":   terminal.Clean(m.Name),
		"Pods":    m.rows(),
	})
}

// style returns the style sheet of the page's picture.
func (m Map) style() string {
	if len(m.arrows) == 0 {
		return mapStyle
	}
	return StyleSheet
}

// podRow is a row of the page's table.
type podRow struct {
	Tag, Name, QoS, Isolation, Assigned, Devices string
	Container                                    bool
}

func (m Map) rows() []podRow {
	var rows []podRow
	for _, p := range m.Pods {
		rows = append(rows, podRow{Tag: p.Tag, Name: terminal.Clean(p.Pod), QoS: p.QoS, Assigned: p.assigned()})
		for _, c := range p.Containers {
			rows = append(rows, podRow{
				Name: terminal.Clean(c.Name), QoS: c.Kind, Isolation: c.Isolation, Assigned: c.Assigned(), Devices: terminal.Clean(view.DevicesText(c.AllDevices, true)), Container: true,
			})
		}
	}
	return rows
}
