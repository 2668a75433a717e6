package installed

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/testing/apiversions"
)

// versions plays the life of a second version of the objects, as RELEASES.md describes it, while
// agents and the scheduler work: served beside the first, stored, migrated to, and alone. Agents
// and the scheduler know the first one alone.
func (c *cluster) versions() {
	c.Helper()
	for _, stored := range []string{"v1alpha1", "v1beta1"} {
		c.define(stored)
		c.replicas("with-"+stored, scheduler, 3, "2")
		c.runs("with-"+stored, 3)
		c.same()
	}
	c.othersAreRejected()
	for _, name := range []string{v1alpha1.PaddockNodes, v1alpha1.PaddockMachines} {
		c.migrate(name + "." + v1alpha1.GroupName)
	}
	c.same()
}

// define applies the definitions with two versions.
func (c *cluster) define(stored string) {
	c.Helper()
	names, err := filepath.Glob(filepath.Join(source, "deploy/base/crds/*.yaml"))
	c.must(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		c.must(err)
		crd, err := apiversions.Read(text)
		c.must(err)
		crd, err = crd.Next("v1beta1", stored)
		c.must(err)
		c.apply(crd)
	}
	c.await("the version v1beta1 is served", func() bool {
		return c.beta(v1alpha1.PaddockNodes) != "" && c.beta(v1alpha1.PaddockMachines) != ""
	})
}

func (c *cluster) apply(crd apiversions.CRD) {
	c.Helper()
	text, err := yaml.Marshal(crd)
	c.must(err)
	cmd := c.Kubectl(c.Context(), "apply", "-f", "-")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("kubectl apply: %v: %s", err, out)
	}
}

// beta returns the list of a resource in the version v1beta1 as JSON. It is empty if the API server
// does not serve it. The Go types of v1alpha1 read it: both versions have one schema.
func (c *cluster) beta(resource string) string {
	out, err := c.Kubectl(c.Context(), "get", "--raw", "/apis/"+v1alpha1.GroupName+"/v1beta1/"+resource).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// same waits until both versions show the same nodes.
func (c *cluster) same() {
	c.Helper()
	var was, is v1alpha1.PaddockNodeList
	c.await("both versions show the same", func() bool {
		was, is = v1alpha1.PaddockNodeList{}, v1alpha1.PaddockNodeList{}
		c.must(c.objects.Get().Resource(v1alpha1.PaddockNodes).Do(c.Context()).Into(&was))
		decoder := json.NewDecoder(strings.NewReader(c.beta(v1alpha1.PaddockNodes)))
		decoder.DisallowUnknownFields()
		c.must(decoder.Decode(&is))
		for i := range was.Items {
			was.Items[i].APIVersion, was.Items[i].ManagedFields = "", nil
		}
		for i := range is.Items {
			is.Items[i].APIVersion, is.Items[i].ManagedFields = "", nil
		}
		one, err := json.Marshal(was.Items)
		c.must(err)
		other, err := json.Marshal(is.Items)
		c.must(err)
		return bytes.Equal(one, other)
	})
	if len(was.Items) != 3 || was.Items[0].Status.Machine == "" || len(was.Items[0].Status.Conditions) == 0 {
		c.Errorf("%d nodes are compared: %+v", len(was.Items), was.Items)
	}
}

// othersAreRejected checks that the admission policies apply to requests in the other version, too:
// the agent of one node writes no object of another one.
func (c *cluster) othersAreRejected() {
	c.Helper()
	client, err := objects.NewClient(c.asAgent())
	c.must(err)
	var list v1alpha1.PaddockNodeList
	c.must(json.Unmarshal([]byte(c.beta(v1alpha1.PaddockNodes)), &list))
	list.Items[0].Status.Revision++
	text, err := json.Marshal(list.Items[0])
	c.must(err)
	path := "/apis/" + v1alpha1.GroupName + "/v1beta1/" + v1alpha1.PaddockNodes + "/" + list.Items[0].Name
	err = client.Put().AbsPath(path).Body(text).SetHeader("Content-Type", "application/json").Do(c.Context()).Error()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		c.Errorf("the agent of n7 writes the object of %s in the version v1beta1: %v", list.Items[0].Name, err)
	}
}

// migrate writes all objects again, so that they are stored in the version v1beta1, and then takes
// the other one off the list of stored versions, with the commands of RELEASES.md.
func (c *cluster) migrate(name string) {
	c.Helper()
	page, err := os.ReadFile(filepath.Join(source, "RELEASES.md"))
	c.must(err)
	for _, command := range []string{
		"kubectl get " + name + " -o json | kubectl replace -f -",
		"kubectl patch customresourcedefinition " + name + ` --subresource=status --type=merge -p '{"status": {"storedVersions": ["v1beta1"]}}'`,
	} {
		if !strings.Contains(string(page), "\n"+command+"\n") {
			c.Errorf("RELEASES.md does not have the command %q", command)
		}
	}
	c.await("every object is written again", func() bool { // A running agent can write between the two.
		cmd := c.Kubectl(c.Context(), "replace", "-f", "-")
		cmd.Stdin = strings.NewReader(c.kubectl("get", name, "-o", "json"))
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "the object has been modified") {
			c.Fatalf("kubectl replace: %s", out)
		}
		return err == nil
	})
	c.kubectl("patch", "customresourcedefinition", name, "--subresource=status", "--type=merge", "-p", `{"status": {"storedVersions": ["v1beta1"]}}`)
	if got := c.kubectl("get", "customresourcedefinition", name, "-o", "jsonpath={.status.storedVersions}"); got != `["v1beta1"]` {
		c.Errorf("%s: the stored versions are %s", name, got)
	}
}

// alone makes the second version the only one, and checks that all objects are still there.
func (c *cluster) alone() {
	c.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	c.must(err)
	before, err := objects.NewClient(config)
	c.must(err)
	names, err := filepath.Glob(filepath.Join(source, "deploy/base/crds/*.yaml"))
	c.must(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		c.must(err)
		crd, err := apiversions.Read([]byte(strings.Replace(string(text), "    name: v1alpha1\n", "    name: v1beta1\n", 1)))
		c.must(err)
		c.apply(crd)
	}
	c.await("v1alpha1 is not served any more", func() bool {
		return apierrors.IsNotFound(before.Get().Resource(v1alpha1.PaddockNodes).Do(c.Context()).Error())
	})
	var nodes v1alpha1.PaddockNodeList
	c.must(json.Unmarshal([]byte(c.beta(v1alpha1.PaddockNodes)), &nodes))
	var machines v1alpha1.PaddockMachineList
	c.must(json.Unmarshal([]byte(c.beta(v1alpha1.PaddockMachines)), &machines))
	if len(nodes.Items) != 3 || len(machines.Items) == 0 {
		c.Errorf("%d nodes and %d machines are left", len(nodes.Items), len(machines.Items))
	}
	for i := range nodes.Items {
		if s := nodes.Items[i].Status; s.Machine == "" || s.PolicyDigest == "" {
			c.Errorf("%s has no status", nodes.Items[i].Name)
		}
	}
}
