package kueue

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/webhooks"
	kueueworkload "sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/yaml"
)

// answered is a workload after Paddock has answered its check.
type answered struct {
	State  string
	After  int32
	Object json.RawMessage
}

func answers(t *testing.T) map[string]answered {
	t.Helper()
	data, err := os.ReadFile("../../scheduler/kueue/testdata/answered.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]answered
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 12 {
		t.Errorf("%d answers, want two about each of six workloads", len(all))
	}
	return all
}

// decode decodes an object into Kueue's type of its version, and returns it in the newest version.
// An unknown field is an error.
func decode(t *testing.T, raw []byte) *v1beta2.Workload {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	w := &v1beta2.Workload{}
	if !bytes.Contains(raw, []byte(v1beta1.GroupVersion.String())) {
		if err := strict.Decode(w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	var old v1beta1.Workload
	if err := strict.Decode(&old); err != nil {
		t.Fatal(err)
	}
	if err := old.ConvertTo(w); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestAnswers checks that Kueue sees the answers as they are meant, and that its webhook takes them.
func TestAnswers(t *testing.T) {
	for name, a := range answers(t) {
		w := decode(t, a.Object)
		ready, retry := kueueworkload.HasAllChecksReady(w), kueueworkload.HasRetryChecks(w)
		if ready != (a.State == "Ready") || retry != (a.State == "Retry") || kueueworkload.HasRejectedChecks(w) {
			t.Errorf("%s: Kueue sees ready %t, retry %t; the answer is %s", name, ready, retry, a.State)
		}
		mine := w.Status.AdmissionChecks[0]
		if mine.Name != "fleet" || mine.RetryCount == nil || *mine.RetryCount != 1 || mine.Message == "" {
			t.Errorf("%s: the check is %+v", name, mine)
		}
		if other := w.Status.AdmissionChecks[1]; other.Message != "done" || len(other.PodSetUpdates) != 1 || other.PodSetUpdates[0].Labels["a"] != "b" {
			t.Errorf("%s: the check of another controller is %+v", name, other)
		}
		clock := testingclock.NewFakeClock(mine.LastTransitionTime.Time)
		at := kueueworkload.NeedsRequeueAtUpdate(w, clock)
		if a.State == "Ready" && at != nil || a.State == "Retry" && (at == nil || at.Sub(clock.Now()) != time.Duration(a.After)*time.Second) {
			t.Errorf("%s: Kueue tries again at %v", name, at)
		}
		if admits := kueueworkload.SyncAdmittedCondition(w, clock.Now()) && kueueworkload.IsAdmitted(w); admits != (a.State == "Ready") {
			t.Errorf("%s: Kueue admits the workload: %t", name, admits)
		}
		if errs := webhooks.ValidateWorkloadUpdate(decode(t, a.Object), before(t, name)); len(errs) > 0 {
			t.Errorf("%s: the webhook rejects the answer: %v", name, errs.ToAggregate())
		}
	}
}

// before returns the workload of an answer before the answer.
func before(t *testing.T, name string) *v1beta2.Workload {
	t.Helper()
	name = name[strings.Index(name, ": ")+2:]
	for _, r := range workloads(t) {
		if r.Name == name {
			return decode(t, r.Object)
		}
	}
	t.Fatalf("there is no workload %s", name)
	return nil
}

// TestSchemas checks the answers against the schemas and the rules of Kueue's
// CustomResourceDefinition.
func TestSchemas(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "config/components/crd/bases/kueue.x-k8s.io_workloads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	for _, v := range definition.Spec.Versions {
		check := validator(t, v)
		if errs := check([]byte(`{"status": {"admissionChecks": [{"name": "fleet", "state": "Perhaps"}]}}`)); len(errs) == 0 {
			t.Errorf("%s: any state is valid", v.Name)
		}
		for name, a := range answers(t) {
			if !strings.HasSuffix(name, v.Name) {
				continue
			}
			if errs := check(a.Object); len(errs) > 0 {
				t.Errorf("%s: %v", name, errs.ToAggregate())
			}
		}
	}
}

// validator returns the validation of a version of a CustomResourceDefinition.
func validator(t *testing.T, v apiextensionsv1.CustomResourceDefinitionVersion) func([]byte) field.ErrorList {
	t.Helper()
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	values, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(raw []byte) field.ErrorList {
		var object map[string]any
		if err := utiljson.Unmarshal(raw, &object); err != nil { // With integers, as the API server has them.
			t.Fatal(err)
		}
		errs := validation.ValidateCustomResource(nil, object, values)
		broken, _ := rules.Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
		return append(errs, broken...)
	}
}
