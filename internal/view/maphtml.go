package view

import (
	_ "embed" // the page
	"html/template"
	"io"
	"strings"
)

//go:embed map.html
var mapPage string

var mapTemplate = template.Must(template.New("map").Parse(mapPage))

// HTML writes a page that holds all it needs: the picture, and as a table what it shows, with
// names in full. It has no scripts and loads nothing.
func (m Map) HTML(out io.Writer) error {
	var picture strings.Builder
	if err := m.SVG(&picture, false); err != nil {
		return err
	}
	return mapTemplate.Execute(out, map[string]any{
		"Map":     m,
		"Style":   template.CSS(MapStyle),          //nolint:gosec // our own style sheet
		"Picture": template.HTML(picture.String()), //nolint:gosec // SVG escapes every name
		"Title":   clean(m.Name),
		"Pods":    m.rows(),
	})
}

// podRow is a line of the page's table.
type podRow struct {
	Tag, Name, QoS, Isolation, Holds, Devices string
	Container                                 bool
}

func (m Map) rows() []podRow {
	var rows []podRow
	for _, p := range m.Pods {
		rows = append(rows, podRow{Tag: p.Tag, Name: clean(p.Pod), QoS: p.QoS, Holds: p.holds()})
		for _, c := range p.Containers {
			rows = append(rows, podRow{
				Name: clean(c.Name), QoS: c.Kind, Isolation: c.Isolation, Holds: c.holds(), Devices: clean(devicesText(c.Devices)), Container: true,
			})
		}
	}
	return rows
}
