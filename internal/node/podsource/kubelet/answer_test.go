package kubelet_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

var gates = podspec.Gates{PodLevelResources: true, PodLevelManagers: true}

// TestNoList: an answer that is not a list of pods is an error that quotes it, and never a node
// without pods.
func TestNoList(t *testing.T) {
	const begin = `{"kind":"PodList","apiVersion":"v1",`
	for name, c := range map[string]struct{ answer, want string }{
		"nothing":            {``, "is incomplete"},
		"an empty object":    {`{}`, `an object without a kind: expected a PodList of v1 with items; it begins "{}"`},
		"null":               {`null`, `not a JSON object: expected a PodList; it begins "null"`},
		"an array":           {`[]`, "not a JSON object"},
		"a text":             {`"PodList"`, "not a JSON object"},
		"a page":             {"<!DOCTYPE html><html><body>kubelet</body></html>", "not a JSON object: expected a PodList; it begins \"<!DOCTYPE html>"},
		"a status":           {`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, `a "Status" of apiVersion "v1": expected a PodList`},
		"a status alone":     {`{"status":"Failure"}`, `it begins "{\"status\":\"Failure\"}"`},
		"a message":          {`{"message":"starting"}`, "an object without a kind"},
		"another list":       {`{"kind":"List","apiVersion":"v1","items":[]}`, `a "List"`},
		"another version":    {`{"kind":"PodList","apiVersion":"v2","items":[]}`, `apiVersion "v2"`},
		"no version":         {`{"kind":"PodList","items":[]}`, `apiVersion ""`},
		"no items":           {`{"kind":"PodList","apiVersion":"v1"}`, "with items"},
		"items of no array":  {begin + `"items":{}}`, `not an array: "{}"`},
		"another case":       {`{"Kind":"PodList","apiVersion":"v1","items":[]}`, "without a kind"},
		"a kind of no text":  {`{"kind":1,"items":[]}`, "expected a short text instead"},
		"two kinds":          {begin + `"items":[],"kind":"PodList"}`, `"kind" twice`},
		"two lists":          {begin + `"items":[],"items":[]}`, `"items" twice`},
		"two lists, escaped": {begin + `"items":[],"\u0069tems":[]}`, `"items" twice`},
		"cut off":            {begin + `"items":[{"metadata":{"uid":"a"`, "is incomplete"},
		"cut off after":      {begin + `"items":[{"metadata":{"uid":"a"}}]`, "is incomplete"},
		"goes on":            {begin + `"items":[]} x`, `has data after the end of the list: 'x'`},
		"two answers":        {begin + `"items":[]}` + begin + `"items":[]}`, "has data after the end of the list"},
		"two commas":         {begin + `"items":[{},,{}]}`, "not JSON"},
		"a comma at the end": {begin + `"items":[{},]}`, "not JSON"},
		"no comma":           {begin + `"items":[{} {}]}`, "not JSON"},
		"no colon":           {`{"kind" "PodList"}`, "not JSON"},
		"a broken item":      {begin + `"items":[{"metadata":{"uid":"a"},}]}`, "not JSON"},
		"a broken rest":      {begin + `"items":[],"metadata":{"a":nil}}`, "not JSON"},
		"too much":           {begin + `"items":[` + strings.Repeat(" ", 65<<20) + `]}`, "larger than 64 MiB"},
		"too many":           {begin + `"items":[` + strings.Repeat(`{},`, kubelet.MaxItems) + `{}]}`, "more than 16384 pods"},
	} {
		pods, list, err := kubelet.Read(strings.NewReader(c.answer), gates)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(pods)+len(list.Pods) > 0 {
			t.Errorf("%s: %v, %v; want an error with %q", name, pods, err, c.want)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%s: an error of %d characters", name, len(err.Error()))
		}
	}
	for _, answer := range []string{begin + `"items":null}`, begin + `"metadata":{},"items":[]}` + "\n", ` {"items":[ ] , "apiVersion":"v1","kind":"PodList", "later":[1,"}",{"a":[]}] }`} {
		if pods, list, err := kubelet.Read(strings.NewReader(answer), gates); err != nil || len(pods)+len(list.Pods)+list.Unreadable > 0 {
			t.Errorf("%s: %v, %v; want a list without pods", answer, pods, err)
		}
	}
}

// TestBrokenItemCostsItself: an error in a pod makes only this pod unusable. The pod is listed if
// its UID can be read, and counted otherwise.
func TestBrokenItemCostsItself(t *testing.T) {
	const good = `{"metadata":{"uid":"good"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`
	big := strings.Repeat("x", kubelet.MaxItem)
	for name, c := range map[string]struct{ item, want string }{
		"good":                 {`{"metadata":{"uid":"x"}}`, "good x; usable good x"},
		"null":                 {`null`, "good; usable good; unreadable 1"},
		"a number":             {`12`, "good; usable good; unreadable 1"},
		"empty":                {`{}`, "good; usable good; unreadable 1"},
		"no UID":               {`{"metadata":{"name":"x"}}`, "good; usable good; unreadable 1"},
		"an empty UID":         {`{"metadata":{"uid":""}}`, "good; usable good; unreadable 1"},
		"a UID of no text":     {`{"metadata":{"uid":1}}`, "good; usable good; unreadable 1"},
		"a very long UID":      {`{"metadata":{"uid":"` + strings.Repeat("u", 400) + `"}}`, "good; usable good; unreadable 1"},
		"two UIDs":             {`{"metadata":{"uid":"x","uid":"y"}}`, "good; usable good; unreadable 1"},
		"two metadata":         {`{"metadata":{"uid":"x"},"metadata":{"uid":"y"}}`, "good; usable good; unreadable 1"},
		"a name of no text":    {`{"metadata":{"uid":"x","name":[]}}`, "good x; usable good"},
		"a spec twice":         {`{"metadata":{"uid":"x"},"spec":{},"spec":{}}`, "good x; usable good"},
		"a quantity in words":  {`{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"four"}}}]}}`, "good x; usable good"},
		"a quantity for ever":  {`{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1e999999999"}}}]}}`, "good x; usable good"},
		"a quantity twice":     {`{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":1,"cpu":2}}}]}}`, "good x; usable good"},
		"a quantity of JSON":   {`{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":{}}}}]}}`, "good x; usable good"},
		"a negative amount":    {`{"metadata":{"uid":"x"},"spec":{"containers":[{"resources":{"requests":{"cpu":"-1"}}}]}}`, "good x; usable good"},
		"containers of a kind": {`{"metadata":{"uid":"x"},"spec":{"containers":{}}}`, "good x; usable good"},
		"many containers":      {`{"metadata":{"uid":"x"},"spec":{"containers":[` + strings.Repeat(`{},`, kubelet.MaxContainers) + `{}]}}`, "good x; usable good"},
		"no time":              {`{"metadata":{"uid":"x","creationTimestamp":"not a time"}}`, "good x; usable good"},
		"an unknown QoS":       {`{"metadata":{"uid":"x"},"status":{"qosClass":"Gold"}}`, "good x; usable good"},
		"no whole seconds":     {`{"metadata":{"uid":"x"},"spec":{"terminationGracePeriodSeconds":30.5}}`, "good x; usable good x"},
		"the same UID":         {good, "good; usable "},
		"ended":                {`{"metadata":{"uid":"x"},"status":{"phase":"Failed"}}`, "good; usable good; ended x"},
		"ended and not":        {`{"metadata":{"uid":"x"},"status":{"phase":"Failed"}},{"metadata":{"uid":"x"}}`, "good x; usable good"},
		"too large":            {`{"metadata":{"uid":"x","annotations":{"a":"` + big + `"}}}`, "good x; usable good"},
		"too large, late":      {`{"spec":{"a":"` + big + `"},"metadata":{"uid":"x"}}`, "good; usable good; unreadable 1"},
		"too large, no object": {`"` + big + `"`, "good; usable good; unreadable 1"},
	} {
		answer := `{"kind":"PodList","apiVersion":"v1","items":[` + c.item + `,` + good + `]}`
		usable, list, err := kubelet.Read(strings.NewReader(answer), gates)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := strings.Join(slices.Sorted(maps.Keys(list.Pods)), " ") + "; usable " + strings.Join(slices.Sorted(maps.Keys(usable)), " ")
		if len(list.Ended) > 0 {
			got += "; ended " + strings.Join(slices.Sorted(maps.Keys(list.Ended)), " ")
		}
		if list.Unreadable > 0 {
			got += fmt.Sprint("; unreadable ", list.Unreadable)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestListingBegun: the pods that have begun are all listed pods with another phase than Pending,
// with and without requests, static pods, those that have ended, and those that cannot be used.
func TestListingBegun(t *testing.T) {
	item := func(name, phase, rest string) string {
		return fmt.Sprintf(`{"metadata":{"uid":"u-%[1]s","namespace":"n","name":%[1]q},"spec":{"containers":[{"name":"c"%[3]s}]},"status":{"phase":%[2]q}}`, name, phase, rest)
	}
	s := newServer(t, `{"kind":"PodList","apiVersion":"v1","items":[`+strings.Join([]string{
		item("besteffort", "Running", ""),
		item("guaranteed", "Running", `,"resources":{"requests":{"cpu":"2","memory":"1Gi"},"limits":{"cpu":"2","memory":"1Gi"}}`),
		item("pulls", "Pending", ""), item("ended", "Succeeded", ""), item("failed", "Failed", ""),
		item("unusable", "Running", `,"resources":{"requests":{"cpu":"-1"}}`),
		item("unusable-pulls", "Pending", `,"resources":{"requests":{"cpu":"-1"}}`),
		`{"metadata":{"uid":"u-static","namespace":"kube-system","name":"proxy-n7","annotations":{"kubernetes.io/config.source":"file"}},"status":{"phase":"Running"}}`,
		`{"metadata":{"uid":"u-broken","namespace":"n","name":"broken"},"spec":5,"status":{"phase":"Running"}}`,
	}, ",")+`]}`)
	source := newSource(t, kubelet.Address{URL: s.URL})
	if _, err := source.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range source.Listing().Begun {
		got = append(got, name.Namespace+"/"+name.Name)
	}
	slices.Sort(got)
	if want := "[kube-system/proxy-n7 n/besteffort n/broken n/ended n/failed n/guaranteed n/unusable]"; fmt.Sprint(got) != want {
		t.Errorf("begun are %v, want %s", got, want)
	}
}

// TestListWithUnreadableItems: such a list cannot show which pods exist, but its pods are usable
// all the same.
func TestListWithUnreadableItems(t *testing.T) {
	s := newServer(t, strings.Replace(list("p 2"), `"items":[`, `"items":[{"metadata":{"name":"who"}},`, 1))
	source := newSource(t, kubelet.Address{URL: s.URL})
	if pods, err := source.List(t.Context()); err == nil || !strings.Contains(err.Error(), `1 items that cannot be attributed to a pod`) || !strings.Contains(err.Error(), "who") {
		t.Errorf("listed %v, error %v; want what cannot be read", pods, err)
	}
	if _, err := source.Lookup(t.Context(), "p"); err != nil {
		t.Error(err)
	}
}

// TestRunningNamesWhatCannotBeRead: a broken pod affects only itself here, too.
func TestRunningNamesWhatCannotBeRead(t *testing.T) {
	const answer = `{"kind":"PodList","apiVersion":"v1","items":[
		{"metadata":{"uid":"a","namespace":"n","name":"one","deletionTimestamp":"2026-11-01T00:00:00Z"},"status":{"containerStatuses":[{"name":"c","containerID":"containerd://1","state":{"running":{}}},
			{"name":"d","containerID":"containerd://2","state":{"waiting":{}}}],"initContainerStatuses":[{"name":"i","containerID":"cri-o://3","state":{"running":{"startedAt":"x"}}}]}},
		{"metadata":{"uid":"b","namespace":"n","name":"two"},"status":{"containerStatuses":[{"name":5}]}}]}`
	s := newServer(t, answer)
	running, unread, err := newSource(t, kubelet.Address{URL: s.URL}).Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []kubelet.Running{{Pod: "a", Who: "n/one", Container: "i", ID: "3", Deleted: true}, {Pod: "a", Who: "n/one", Container: "c", ID: "1", Deleted: true}}
	if d := cmp.Diff(want, running); d != "" {
		t.Error(d)
	}
	if len(unread) != 1 || !strings.Contains(unread[0].Error(), "pod n/two (uid b)") {
		t.Errorf("unread %v, want n/two", unread)
	}
}

// TestItemIsThePod: the fields that are read of a pod give the same request as the whole pod. The
// recorded list has what kubelets add, and the example pods have the rest.
func TestItemIsThePod(t *testing.T) {
	var recorded struct{ Items []json.RawMessage }
	readJSON(t, "testdata/pods-1.36.3.json", &recorded)
	examples, err := filepath.Glob("../../../../examples/pods/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sources, _, err := podspec.ReadFiles(examples, nil)
	if err != nil {
		t.Fatal(err)
	}
	items := recorded.Items
	for _, s := range sources {
		raw, err := json.Marshal(s.Pod)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, raw)
	}
	items = append(items, json.RawMessage(`{"metadata":{"name":"claiming"},"spec":{"containers":[{"name":"c","resources":`+
		`{"limits":{"example.com/gpu":"1"},"requests":{"example.com/gpu":"1"},"claims":[{"name":"nic"},{"name":"gpu","request":"large"},{"name":"nic","request":"a"}]}}],`+
		`"resourceClaims":[{"name":"nic","resourceClaimName":"nics"},{"name":"gpu","resourceClaimTemplateName":"gpus"}]},`+
		`"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"claiming-gpu-x7"}],"extendedResourceClaimStatus":`+
		`{"resourceClaimName":"claiming-extended","requestMappings":[{"containerName":"c","resourceName":"example.com/gpu","requestName":"container-0-request-0"}]}}}`))
	for _, moves := range []string{"", "none", "anywhere", "within-numa", "somewhere"} {
		items = append(items, json.RawMessage(`{"metadata":{"name":"moves","annotations":{"paddock-project.github.io/moves":"`+moves+`"}},"spec":{"containers":[{"name":"c"}]}}`))
	}
	for _, label := range []string{"virt-launcher", "virt-api"} {
		items = append(items, json.RawMessage(`{"metadata":{"name":"vm","labels":{"kubevirt.io":"`+label+`","app":"vm"}},"spec":{"containers":[{"name":"c"}]}}`))
	}
	for _, raw := range items {
		var whole v1.Pod
		if err := json.Unmarshal(raw, &whole); err != nil {
			t.Fatal(err)
		}
		whole.UID = "u" // A pod without a UID gets a digest of all its fields.
		part, err := kubelet.Item(raw)
		if err != nil {
			t.Fatal(err)
		}
		part.UID = "u"
		want, wantErr := podspec.Request(podspec.Default(&whole, gates), gates)
		got, gotErr := podspec.Request(podspec.Default(part, gates), gates)
		if d := cmp.Diff(want, got); d != "" || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			t.Errorf("%s: %v, %v\n%s", whole.Name, wantErr, gotErr, d)
		}
		if d := cmp.Diff(claims.UsesOf(&whole), claims.UsesOf(part)); d != "" || whole.Name == "claiming" && len(claims.UsesOf(part)) != 3 {
			t.Errorf("%s: claims\n%s", whole.Name, d)
		}
	}
	if len(items) < 8 {
		t.Errorf("%d pods say little", len(items))
	}
}

func readJSON(tb testing.TB, path string, to any) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		tb.Fatal(err)
	}
}
