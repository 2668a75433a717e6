package web

import (
	"bytes"
	"html/template"
	"io"
	"net/http"
	"strings"

	"github.com/yuin/goldmark"

	"github.com/paddock-project/paddock/docs/rules"
)

// rulePage is the page of a rule. Its texts are those of the rule book, which is part of the
// program.
var rulePage = template.Must(template.New("rule").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{(index . 0).ID}} – Paddock</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../page.css">
</head>
<body class="rule">
<main>
{{range .}}<article id="{{.ID}}">
<h1>{{.ID}}</h1>
{{with .Plain}}<p class="sentence">{{.}}</p>
{{end}}<p class="faint">docs/rules/{{.Page}}, {{.Section}}</p>
{{.Text}}
{{with .Paddock}}<h2>Paddock</h2>
{{.}}
{{end}}</article>
{{end}}</main>
</body>
</html>
`))

// shownRule is a rule with its Markdown as HTML.
type shownRule struct {
	ID, Plain, Page, Section string
	Text, Paddock            template.HTML
}

// serveRule writes rules of the rule book: as a page for a browser, and as text for everything
// else.
func serveRule(rw http.ResponseWriter, r *http.Request) {
	found, missing := rules.Find(r.PathValue("id"))
	if len(found) == 0 {
		if len(missing) == 0 {
			missing = []string{r.PathValue("id")}
		}
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		rw.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(rw, rules.Unknown(missing)+"\n") // An error means that the reader is gone.
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, rule := range found {
			_, _ = io.WriteString(rw, rule.String()+"\n") // As above.
		}
		return
	}
	shown := make([]shownRule, 0, len(found))
	for _, rule := range found {
		text, err := markdown(rule.Text)
		if err == nil {
			var ours template.HTML
			ours, err = markdown(rule.Paddock)
			shown = append(shown, shownRule{rule.ID, rule.Plain, rule.Page, rule.Section, text, ours})
		}
		if err != nil {
			fail(rw, http.StatusInternalServerError, err.Error())
			return
		}
	}
	var page bytes.Buffer
	if err := rulePage.Execute(&page, shown); err != nil {
		fail(rw, http.StatusInternalServerError, err.Error())
		return
	}
	send(rw, "text/html; charset=utf-8", page.Bytes())
}

// markdown returns a text of the rule book as HTML. HTML in the text is left out.
func markdown(text string) (template.HTML, error) {
	var out bytes.Buffer
	if err := goldmark.Convert([]byte(text), &out); err != nil {
		return "", err
	}
	return template.HTML(out.String()), nil //nolint:gosec // It is of the rule book, and goldmark escapes it.
}
