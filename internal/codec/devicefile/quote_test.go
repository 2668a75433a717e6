package devicefile

import "encoding/json"

// quote writes a text as JSON.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
