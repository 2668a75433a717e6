package manifests_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
)

// A file is replaced by a broken one while its pod runs. The pod stays, and the Problem describes
// the error.
func Example() {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(content), 0o600); err != nil {
			panic(err)
		}
	}
	write("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c}]}}")

	ctx, cancel := context.WithCancel(context.Background())
	source := manifests.New([]string{dir}, manifests.Options{After: time.After})
	calls := 0
	err = source.Run(ctx, func(set manifests.Set) {
		for _, p := range set.Pods {
			fmt.Println("runs:", p.Pod.Name)
		}
		for _, b := range set.Broken {
			fmt.Printf("%s is broken, pods that are kept: %d\n", filepath.Base(b.File), b.Kept)
		}
		if calls++; calls == 2 {
			cancel()
			return
		}
		write("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: none}}")
	})
	fmt.Println(err)
	// Output:
	// runs: web
	// runs: web
	// web.yaml is broken, pods that are kept: 1
	// context canceled
}
