//go:build !race

package webui_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/webuitest"
	"github.com/paddock-project/paddock/internal/ui/webui"
)

func TestMain(m *testing.M) { os.Exit(webuitest.Main{M: m}.Run()) }

// TestBytesOfTheScript checks that the pages show an amount as the commands do.
func TestBytesOfTheScript(t *testing.T) {
	const gib = int64(1) << 30
	amounts := []int64{0, 1, 1023, 1024, 1075, 1025 * gib, 1024 * gib, 1126 * gib, 1536 * gib, 10 * 1024 * gib, 10*1024*gib + gib, 11*1024*gib + 7*gib}
	for _, unit := range []int64{1 << 10, 1 << 20, gib, 1024 * gib, 1 << 50} {
		for eighths := range int64(25) {
			amounts = append(amounts, eighths*unit/8, 1023*unit+eighths*unit/8)
		}
	}
	// The script has numbers with 53 bits.
	amounts = slices.DeleteFunc(amounts, func(n int64) bool { return n < 0 || int64(float64(n)) != n || float64(n) >= math.MaxInt64 })
	asked, err := json.Marshal(amounts)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(string(webui.TextJS), "export ", "")
	var shown []string
	text := webuitest.New(t).Text("(() => {" + script + "; return JSON.stringify(" + string(asked) + ".map(bytes)); })()")
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	for i, n := range amounts {
		if want := request.RoundedBytes(n); shown[i] != want {
			t.Errorf("%d bytes are %s, and %s in the commands", n, shown[i], want)
		}
	}
}
