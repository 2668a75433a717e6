package duties

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/scheduler/machines"
)

// TestUnusedMachines checks that, of three pages of machines, those that no node uses are deleted
// after an hour. Each is deleted only if it is still the object that was listed.
func TestUnusedMachines(t *testing.T) {
	server := objectstest.New(t)
	client, err := objects.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	const count = 2*page + 1
	create := func(resource string, o any) {
		if err := client.Post().Resource(resource).Body(o).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		create(v1alpha1.PaddockMachines, &v1alpha1.PaddockMachine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}})
		if i%2 == 0 {
			n := &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
			n.Status.Machine = fmt.Sprint("m", i)
			create(v1alpha1.PaddockNodes, n)
		}
	}
	world, now := collected(client), time.Unix(1000, 0)
	world.Now = func() time.Time { return now }
	collector := machines.New(world)
	collector.Pass(t.Context())
	now = now.Add(machines.Unused)
	lists := 0
	server.Fail(func(r *http.Request) int {
		if r.Method == http.MethodGet {
			lists++
		}
		return 0
	})
	collector.Pass(t.Context())
	if lists != 5 {
		t.Errorf("%d requests for lists: want three pages of machines and two of nodes", lists)
	}
	for i := range count {
		if there := server.Get(t, v1alpha1.PaddockMachines, fmt.Sprint("m", i), &v1alpha1.PaddockMachine{}); there != (i%2 == 0) {
			t.Fatalf("machine %d of %d is there: %t", i, count, there)
		}
	}
	if err := world.Delete(t.Context(), "m0", "another"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "m0") {
		t.Errorf("another object of the name is deleted: %v", err)
	}
}
