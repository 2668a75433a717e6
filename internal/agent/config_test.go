package agent

import (
	"errors"
	"testing"
)

// TestConfigurationErrors checks that errors name what the file has and what the field accepts, and
// do not contain Go types.
func TestConfigurationErrors(t *testing.T) {
	const more = "; paddock agent --print-config prints every field"
	for text, want := range map[string]string{
		"moves: 3":                          "moves: has the type number; expected an object, such as {field: value}",
		"moves: {interval: soon}":           `moves.interval: "soon" is not a duration; expected a number with a unit, such as 800ms, 1.5s or 10m`,
		"nri: {timeout: ''}":                `nri.timeout: "" is not a duration; expected a number with a unit, such as 800ms, 1.5s or 10m`,
		"moves: {interval: 10}":             "moves.interval: has the type number; expected a number with a unit, such as 800ms, 1.5s or 10m",
		"maxContainersPerPod: many":         "maxContainersPerPod: has the type string; expected a whole number of at most 64 bits",
		"moves: {intervall: 10m}":           `unknown field "moves.intervall"` + more,
		"state: a\nstate: b":                `yaml: unmarshal errors:` + "\n  line 2: key \"state\" already set in map",
		"strict: 'yes'":                     "strict: has the type string; expected true or false",
		"nodeName: 7":                       "nodeName: has the type number; expected a string, in quotes",
		"pods: a":                           "pods: has the type string; expected a list",
		"podResources: {burst: 1e20}":       "podResources.burst: has the type number; expected a whole number of at most 64 bits",
		"podResources: {callsPerSecond: x}": "podResources.callsPerSecond: has the type string; expected a number",
		"[]":                                "the file: has the type array; expected an object, such as {field: value}",
		"a: 1\nb: 2":                        `unknown field "a"` + "\n" + `unknown field "b"` + more,
	} {
		c, err := ReadConfig("agent.yaml", []byte(text))
		if want = "agent.yaml: the agent's configuration is not valid: " + want; !errors.Is(err, ErrConfig) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
		if c.State != "" {
			t.Errorf("%s: a configuration is returned beside the error", text)
		}
	}
}
