package collect

import (
	"strings"
	"testing"
)

func script() Script {
	return Script{Version: "v1", Via: Debug, Image: DefaultImage, Namespace: DefaultNamespace, KubeletDir: DefaultKubeletDir}
}

// The script has the values of its fields as single words of the shell.
func TestTextQuotes(t *testing.T) {
	for _, c := range []struct {
		change func(*Script)
		want   []string
	}{
		{func(*Script) {}, []string{"node=${1-}\n", "#   sh collect.sh NODE\n", `folder="./paddock-$node"`, "image='busybox:1.37'\n", "kubectl debug", "kubectl() { command kubectl --request-timeout \"$timeout\" \"$@\"; }\n", "dra_manager_state'\n"}},
		{func(s *Script) { s.Node, s.Folder = "node7", "it's; here" }, []string{"node='node7'\n", `folder='it'\''s; here'`, "#   sh collect.sh\n"}},
		{func(s *Script) { s.Via, s.Host = SSH, "admin@h" }, []string{"host='admin@h'\n", "ssh -n", "ssh -o ConnectTimeout=10 "}},
		{func(s *Script) { s.Via = SSH }, []string{"host=$node\n"}},
		{func(s *Script) { s.KubeletDir = "/var/lib/k0s/kubelet/" }, []string{"directory='/var/lib/k0s/kubelet' #"}},
		{func(s *Script) { s.Anonymize = true }, []string{"folder=./paddock-anonymous\n", "--filter --anonymize; }", "/dev/urandom", "checkpoint' # dra_manager_state has names"}},
	} {
		s := script()
		c.change(&s)
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: %q is not in\n%s", s, want, text)
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") && len(line) > 101 {
				t.Errorf("a comment is too long to read: %s", line)
			}
		}
	}
}

// What the shell of the node or a flag would read in another way is rejected.
func TestTextRejects(t *testing.T) {
	for _, c := range []struct {
		change func(*Script)
		want   string
	}{
		{func(s *Script) { s.Node = "a b" }, `--node "a b"`},
		{func(s *Script) { s.Node = "-n" }, `--node "-n"`},
		{func(s *Script) { s.Node = "$(id)" }, "--node"},
		{func(s *Script) { s.Via = "" }, "--via"},
		{func(s *Script) { s.Image = "" }, "--image"},
		{func(s *Script) { s.Image = "-x" }, "--image"},
		{func(s *Script) { s.Namespace = "A" }, "--namespace"},
		{func(s *Script) { s.Via, s.Host = SSH, "-oProxyCommand=x" }, "--host"},
		{func(s *Script) { s.KubeletDir = "var" }, "--kubelet-dir"},
		{func(s *Script) { s.KubeletDir = "/" }, "--kubelet-dir"},
		{func(s *Script) { s.KubeletDir = "/var/$(id)" }, "--kubelet-dir"},
		{func(s *Script) { s.KubeletDir = "/var/a b" }, "--kubelet-dir"},
		{func(s *Script) { s.Folder = "a\nb" }, "--folder"},
	} {
		s := script()
		c.change(&s)
		if text, err := s.Text(); err == nil || text != "" || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", s, err, c.want)
		}
	}
}
