package fleetpage

import (
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"github.com/paddock-project/paddock/internal/ui/webui"
)

// maxListed is how many pods a page in one file lists. It limits the file to a few megabytes.
const maxListed = 50_000

// imported matches the end of an import of a script.
var imported = regexp.MustCompile(` from '\./([a-z]+\.js)';`)

// WriteHTML writes the page as one file that contains all of its data and loads nothing.
func (f *Fleet) WriteHTML(out io.Writer) error {
	o := f.snapshot(nil).overview(0)
	for _, v := range f.Views {
		for g := range v.State.AllGrants() {
			if len(o.Pods) == maxListed {
				o.Omitted++
				continue
			}
			o.Pods = append(o.Pods, [2]string{g.Pod.ID(), v.Name})
		}
	}
	data, err := json.Marshal(o) // It escapes <, > and &.
	if err != nil {
		return err
	}
	text := func(name string) string {
		var content []byte
		if content, err = fs.ReadFile(files, "page/"+name); err != nil {
			panic(err) // The name is that of a file in page.
		}
		return string(content)
	}
	// A script in a data URL cannot import a relative name: its imports become data URLs as well.
	var script func(name string) string
	script = func(name string) string {
		content := string(webui.TextJS)
		if name != "text.js" {
			content = text(name)
		}
		content = imported.ReplaceAllStringFunc(content, func(from string) string {
			return " from '" + script(imported.FindStringSubmatch(from)[1]) + "';"
		})
		return "data:text/javascript;base64," + base64.StdEncoding.EncodeToString([]byte(content))
	}
	scripts := map[string]string{"./text.js": script("text.js")}
	for _, name := range modules {
		scripts["./"+name] = script(name)
	}
	imports, err := json.Marshal(map[string]map[string]string{"imports": scripts})
	if err != nil {
		return err
	}
	page := strings.NewReplacer(
		`<link rel="stylesheet" href="map.css">`+"\n", "",
		`<link rel="stylesheet" href="fleet.css">`, "<style>\n"+text("fleet.css")+"</style>",
		`<script type="module" src="fleet.js"></script>`, `<script type="importmap">`+string(imports)+"</script>\n"+
			`<script type="application/json" id="data">`+string(data)+"</script>\n"+
			`<script type="module">`+"\n"+text("fleet.js")+"</script>",
		"<title>Paddock</title>", "<title>"+template.HTMLEscapeString(f.Title)+"</title>",
	).Replace(text("index.html"))
	_, err = io.WriteString(out, page)
	return err
}
