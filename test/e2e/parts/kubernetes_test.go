package parts

import "testing"

func TestVersionFlags(t *testing.T) {
	const goMod = "module example.com/programs\n\nrequire (\n\tk8s.io/kubectl v0.36.3\n\tk8s.io/kubernetes v1.36.3\n)\n"
	const want = " -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	if got := versionFlags([]byte(goMod)); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := versionFlags([]byte("module example.com/chart\n\nrequire helm.sh/helm/v4 v4.3.1\n")); got != "" {
		t.Errorf("%q without Kubernetes", got)
	}
}
