package malformed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

type inner struct {
	Op    string `json:"op"`
	Bytes uint32 `json:"bytes"`
	Share float64
}

type wrapped struct{ inner }

func (w *wrapped) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &w.inner); err != nil {
		return fmt.Errorf("pods[0]: %w", err)
	}
	return nil
}

type outer struct {
	Events []inner          `json:"events"`
	ByName map[string]inner `json:"byName"`
	On     bool             `json:"on"`
	Whole  int64            `json:"whole"`
	Pods   *wrapped         `json:"pods"`
}

func TestErrorsAreAboutTheJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                        "it is a list, expected an object",
		`"x"`:                                       `it is "x", expected an object`,
		`{"events": [{}, {"op": 5}]}`:               "events[1].op: it is 5, expected a string",
		`{"events": [{"bytes": -1}]}`:               "events[0].bytes: it is -1, expected a whole number, 0 or more",
		`{"events": [{"bytes": 4294967296}]}`:       "events[0].bytes: it is 4294967296, expected a whole number of at most 32 bits",
		`{"events": [{"Share": "x"}]}`:              `events[0].Share: it is "x", expected a number`,
		`{"events": {"op": 5}}`:                     "events: it is an object, expected a list",
		`{"byName": {"a": {}, "b": [1]}}`:           "byName.b: it is a list, expected an object",
		`{"on": "yes"}`:                             `on: it is "yes", expected true or false`,
		`{"events": [{"op": ["x"]}, {"op":""`:       "the JSON is cut off",
		`{"whole": 1.5}`:                            "whole: it is 1.5, expected a whole number of at most 64 bits",
		`{"on": true, "pods": {"op": 5}}`:           "pods[0]: op: it is a number, expected a string",
		`{"events": nonsense}`:                      "JSON syntax error at byte 13: invalid character 'o' in literal null (expecting 'u')",
		`{"on": "` + strings.Repeat("é", 50) + `"}`: `on: it is "` + strings.Repeat("é", 40) + `…", expected true or false`,
	} {
		var o outer
		err := malformed.JSON([]byte(text), json.Unmarshal([]byte(text), &o))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	if err := malformed.JSON(nil, nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
	other := errors.New("disk is full")
	if err := malformed.JSON(nil, other); !errors.Is(err, other) {
		t.Errorf("another error becomes %v", err)
	}
	d := json.NewDecoder(strings.NewReader(`{"nosuch": 1}`))
	d.DisallowUnknownFields()
	if err := malformed.JSON(nil, d.Decode(&outer{})); err == nil || err.Error() != `unknown field "nosuch"` {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestTextIsCutOff(t *testing.T) {
	whole := `{"a": [1, {"b": "x\"y"}]}`
	for n := 1; n < len(whole); n++ {
		if malformed.CutOff([]byte("\ufeff \n"+whole[:n])) == nil {
			t.Errorf("%s is not seen", whole[:n])
		}
	}
	for _, text := range []string{"", " ", whole, "[1]", "{a: 1", "a: [1", "kind: Pod", `{"a": nonsense`, `"x`, `{"a": tr ue}`} {
		if err := malformed.CutOff([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzJSON checks that no text leads to a panic, or to an error with a type of Go.
func FuzzJSON(f *testing.F) {
	f.Add(`{"events": [{"op": 5}]}`)
	f.Add(`{"byName": {"": {"bytes": -1}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		err := json.Unmarshal([]byte(text), new(outer))
		if plain := malformed.JSON([]byte(text), err); (plain == nil) != (err == nil) || plain != nil && strings.Contains(plain.Error(), "malformed_test") {
			t.Errorf("%q: %v becomes %v", text, err, plain)
		}
		_ = malformed.CutOff([]byte(text))
	})
}
