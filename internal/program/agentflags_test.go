package program

import (
	"reflect"
	"testing"

	"github.com/spf13/pflag"

	"github.com/paddock-project/paddock/internal/agent"
)

// TestAgentFlags checks that every flag of the agent that has a field in its configuration sets
// this field.
func TestAgentFlags(t *testing.T) {
	values := map[string]string{"cpu-quota": agent.QuotaKubelet, "runtime": "nri", "map": "everywhere", "log-format": "json", "log-level": "debug"}
	(&agentCommand{}).command().Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "config" || flag.Name == "print-config" {
			return
		}
		value := values[flag.Name]
		switch {
		case value != "":
		case flag.Value.Type() == "bool":
			value = "true"
		default:
			value = "/another"
		}
		if value == flag.DefValue {
			t.Fatalf("--%s: %s is its default", flag.Name, value)
		}
		var f agentFlags
		cmd := (&agentCommand{}).command()
		cmd.ResetFlags()
		f.register(cmd)
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			t.Fatal(err)
		}
		got, err := f.config(cmd) // The error is about other fields, which are not set here.
		if reflect.DeepEqual(got, agent.DefaultConfig()) {
			t.Errorf("--%s %s changes nothing: %v", flag.Name, value, err)
		}
	})
}
