package chart

import (
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// expression is an expression of a policy. If it is a variable, it has a name.
type expression struct{ name, text string }

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }

// attempt is a request to the API server.
type attempt struct {
	resource, subresource string
	operation             admission.Operation
	by                    user.Info
	object, before        runtime.Object
}

// allows evaluates the validations of a policy as the API server does.
func allows(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy, a attempt) bool {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range p.Spec.Variables {
		if made := compiler.CompileAndStoreVariable(expression{v.Name, v.Expression}, cel.OptionalVariableDeclarations{}, environment.StoredExpressions); made.Error != nil {
			t.Fatalf("%s: variable %s: %v", p.Name, v.Name, made.Error)
		}
	}
	var all []cel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		all = append(all, expression{"", v.Expression})
	}
	condition := compiler.CompileCondition(all, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	kind, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Object"}, schema.GroupVersionResource{Version: "v1", Resource: a.resource}
	attributes := admission.NewAttributesRecord(a.object, a.before, kind, "default", "name", gvr, a.subresource, a.operation, nil, false, a.by)
	request := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource{Version: "v1", Resource: a.resource}, metav1.GroupVersionKind{Version: "v1"})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(a.object), VersionedOldObject: admission.NewLazyObject(a.before)}
	results, _, err := condition.ForInput(compiler.CreateContext(t.Context()), versioned, request, cel.OptionalVariableBindings{}, nil, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	for _, r := range results {
		if r.Error != nil {
			t.Fatalf("%s: %v", p.Name, r.Error)
		}
		is, ok := r.EvalResult.Value().(bool)
		yes = yes && ok && is
	}
	return yes
}

func pod(grant string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if grant != "" {
		p.Annotations = map[string]string{"paddock-project.github.io/grant": grant}
	}
	return p
}

func binding(grant string) *v1.Binding { return &v1.Binding{ObjectMeta: pod(grant).ObjectMeta} }

// TestGrantPolicy checks that only the scheduler sets the annotation, in a Binding, and that the
// annotation never changes.
func TestGrantPolicy(t *testing.T) {
	p := as[admissionv1.ValidatingAdmissionPolicy](t, kustomized(t, base), "ValidatingAdmissionPolicy paddock-grants")
	scheduler := &user.DefaultInfo{Name: "system:serviceaccount:paddock:paddock-scheduler"}
	ada := &user.DefaultInfo{Name: "ada", Groups: []string{"system:masters"}}
	for name, c := range map[string]struct {
		attempt
		want bool
	}{
		"a pod":                                  {attempt{"pods", "", admission.Create, ada, pod(""), nil}, true},
		"a pod with a grant":                     {attempt{"pods", "", admission.Create, ada, pod("x"), nil}, false},
		"a pod with a grant, by the scheduler":   {attempt{"pods", "", admission.Create, scheduler, pod("x"), nil}, false},
		"a bound pod changes":                    {attempt{"pods", "", admission.Update, ada, pod("x"), pod("x")}, true},
		"another grant":                          {attempt{"pods", "", admission.Update, ada, pod("y"), pod("x")}, false},
		"another grant, through the status":      {attempt{"pods", "status", admission.Update, ada, pod("y"), pod("x")}, false},
		"another grant, by the scheduler":        {attempt{"pods", "", admission.Update, scheduler, pod("y"), pod("x")}, false},
		"the grant is taken away":                {attempt{"pods", "", admission.Update, ada, pod(""), pod("x")}, false},
		"a pod gets a grant":                     {attempt{"pods", "", admission.Update, ada, pod("x"), pod("")}, false},
		"a binding":                              {attempt{"pods", "binding", admission.Create, ada, binding(""), nil}, true},
		"a binding with a grant":                 {attempt{"pods", "binding", admission.Create, ada, binding("x"), nil}, false},
		"a binding with a grant, by a scheduler": {attempt{"pods", "binding", admission.Create, scheduler, binding("x"), nil}, true},
		"a legacy binding with a grant":          {attempt{"bindings", "", admission.Create, ada, binding("x"), nil}, false},
		"a legacy binding, by a scheduler":       {attempt{"bindings", "", admission.Create, scheduler, binding("x"), nil}, true},
		"a binding with a grant, by another one": {attempt{"pods", "binding", admission.Create, &user.DefaultInfo{Name: "system:kube-scheduler"}, binding("x"), nil}, false},
	} {
		if got := allows(t, &p, c.attempt); got != c.want {
			t.Errorf("%s: allowed %t, want %t", name, got, c.want)
		}
	}
}

// TestGrantPolicyFollowsTheValues checks that only the service account and the users that the
// values name can hand over grants.
func TestGrantPolicyFollowsTheValues(t *testing.T) {
	for file, want := range map[string][]string{
		"":                    {"system:serviceaccount:paddock:paddock-scheduler"},
		"only-scheduler.yaml": {"system:serviceaccount:paddock:numa-scheduler", "system:kube-scheduler"},
	} {
		all, _ := rendered(t, values(t, file))
		p := as[admissionv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy paddock-grants")
		for _, name := range []string{
			"system:serviceaccount:paddock:paddock-scheduler", "system:serviceaccount:paddock:numa-scheduler", "system:kube-scheduler",
			"system:serviceaccount:other:paddock-scheduler", "system:serviceaccount:paddock:paddock", "system:anonymous",
		} {
			if got := allows(t, &p, attempt{"pods", "binding", admission.Create, &user.DefaultInfo{Name: name}, binding("x"), nil}); got != slices.Contains(want, name) {
				t.Errorf("%s: %q is allowed: %t", file, name, got)
			}
		}
	}
}

// TestNodeResourceTopologyPolicy checks that an agent can write only the object of its own node.
// Writes of other users are not checked.
func TestNodeResourceTopologyPolicy(t *testing.T) {
	all, _ := rendered(t, values(t, "node-resource-topology.yaml"))
	p := as[admissionv1.ValidatingAdmissionPolicy](t, all, "ValidatingAdmissionPolicy paddock-node-resource-topologies")
	if want := "request.userInfo.username == 'system:serviceaccount:paddock:paddock'"; len(p.Spec.MatchConditions) != 1 || p.Spec.MatchConditions[0].Expression != want {
		t.Errorf("the conditions are %+v", p.Spec.MatchConditions)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}}
	o.SetName("node7")
	for _, node := range []string{"node7", "node8"} {
		by := &user.DefaultInfo{Name: "system:serviceaccount:paddock:paddock", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
		if got := allows(t, &p, attempt{"noderesourcetopologies", "", admission.Update, by, o, o}); got != (node == "node7") {
			t.Errorf("the agent of %s is allowed: %t", node, got)
		}
	}
}

// TestNodePolicy checks that only the agent of a node, as identified by its token, can write the
// PaddockNode of that node.
func TestNodePolicy(t *testing.T) {
	p := as[admissionv1.ValidatingAdmissionPolicy](t, kustomized(t, base), "ValidatingAdmissionPolicy paddock-nodes")
	object := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "paddock-project.github.io/v1alpha1", "kind": "PaddockNode"}}
		o.SetName(name)
		return o
	}
	agent := func(name string, nodes ...string) user.Info {
		return &user.DefaultInfo{Name: name, Extra: map[string][]string{"authentication.kubernetes.io/node-name": nodes}}
	}
	const account = "system:serviceaccount:paddock:paddock"
	for name, c := range map[string]struct {
		by   user.Info
		want bool
	}{
		"its own node":          {agent(account, "node7"), true},
		"a node it observes":    {agent(account+"-observe", "node7"), true},
		"another that it sees":  {agent(account+"-observe", "node8"), false},
		"another node":          {agent(account, "node8"), false},
		"a token of no pod":     {&user.DefaultInfo{Name: account}, false},
		"another account":       {agent("system:serviceaccount:default:default", "node7"), false},
		"an administrator":      {&user.DefaultInfo{Name: "ada", Groups: []string{"system:masters"}}, false},
		"a node of two, forged": {agent(account, "node8", "node7"), false},
	} {
		if got := allows(t, &p, attempt{"paddocknodes", "", admission.Create, c.by, object("node7"), nil}); got != c.want {
			t.Errorf("%s: allowed %t, want %t", name, got, c.want)
		}
	}
}

// TestNodePolicyOfMigrations checks that anyone with the permission can store an object again as it
// is, and changes nothing with that, also nothing of what decides when the object is deleted.
func TestNodePolicyOfMigrations(t *testing.T) {
	p := as[admissionv1.ValidatingAdmissionPolicy](t, kustomized(t, base), "ValidatingAdmissionPolicy paddock-nodes")
	ada := &user.DefaultInfo{Name: "ada", Groups: []string{"system:masters"}}
	read := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	const was = `{apiVersion: paddock-project.github.io/v1alpha1, kind: PaddockNode, metadata: {name: node7, resourceVersion: "1",
  ownerReferences: [{apiVersion: v1, kind: Node, name: node7, uid: u}]}, status: {revision: 7, grants: [{uid: a, grant: "{}"}]}}`
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"", "", true},
		{`resourceVersion: "1"`, `resourceVersion: "2", managedFields: [{manager: kubectl}]`, true},
		{"revision: 7", "revision: 8", false},
		{"uid: a", "uid: b", false},
		{"uid: u", "uid: v", false},
		{"name: node7, resource", "name: node7, labels: {a: b}, resource", false},
		{"name: node7, resource", "name: node7, annotations: {a: b}, resource", false},
		{"name: node7, resource", "name: node7, finalizers: [a/b], resource", false},
	} {
		is := read(strings.Replace(was, c.from, c.to, 1))
		if got := allows(t, &p, attempt{"paddocknodes", "", admission.Update, ada, is, read(was)}); got != c.want {
			t.Errorf("%q instead of %q: allowed %t, want %t", c.to, c.from, got, c.want)
		}
	}
}
