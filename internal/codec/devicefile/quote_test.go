package devicefile

import "encoding/json"

// quote returns a text as a JSON string.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}
