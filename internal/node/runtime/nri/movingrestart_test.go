package nri_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// The agent dies after every write and every update of a move. A container that has its new CPUs by
// then keeps them, because the next agent continues the move from there.
func TestMoveGoesOnWhereItWas(t *testing.T) {
	there := 0
	for cut := int64(1); cut <= 8; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := fragmented(t)
				b.cut.Store(cut)
				if err := b.run("big"); !errors.Is(err, nri.ErrMoving) {
					t.Fatal(err)
				}
				pass(20 * time.Second)
				b.disconnect()
				const moved = "2-3 on "
				had := strings.HasPrefix(b.shown()["c/app"], moved)
				b.start()
				for range 20 {
					pass(200 * time.Millisecond)
					if has := b.shown()["c/app"]; had && !strings.HasPrefix(has, moved) {
						t.Errorf("c/app had CPUs 2-3 and has %s", has)
					}
				}
				if had {
					there++
				}
				b.check(t)
			})
		})
	}
	if there == 0 {
		t.Error("c/app had its new CPUs after no crash")
	}
}
