package treatment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Upgrade asks what the start of another kubelet does to a node, from the node's own files.
type Upgrade struct {
	// To is the kubelet that starts next. As is the present one. If As is zero, it is concluded
	// from the files.
	To, As behavior.Version
	// Path is the kubelet's directory, or one of its files. Pods are manifests of all pods of the
	// node.
	Path string
	Pods []string
	// Machine and Config name the machine, and the configuration with which the kubelet starts.
	// SameMachine is set if the machine is that of the files even if it differs from what they
	// have.
	Machine, Config string
	SameMachine     bool

	near map[string]map[string]mask.Mask // as in Found
	own  *machine.Machine                // as in Found
	node *v1.Node                        // as in Found
}

// Upgraded is the answer to an Upgrade.
type Upgraded struct {
	// To is the kubelet that starts. As is the present one, or zero if it is not known. Assumed is
	// set if As is a conclusion from the files.
	To, As  behavior.Version
	Assumed bool
	// Node is the name of the Kubernetes node, or of the machine if the pods do not name one node.
	Node    string
	Machine *machine.Machine
	Start
	// Now is what the present kubelet would do if it were restarted. It is nil if the present
	// kubelet is not known, or is the one that starts.
	Now *Start
	// Notes are remarks about the inputs.
	Notes []string
}

// Start is what a kubelet does at a start on the files of a node.
type Start struct {
	// Answer is whether the kubelet starts. Without the content of a file, it is StartsWithout.
	Answer doctor.Answer
	// Problems are those of the configuration because of which the kubelet does not start, or
	// because of which it is not known what it does. The files are then not checked.
	Problems []kubeletcfg.Problem
	// Files are the files with their diagnoses.
	Files []Verified
	// Pods are the pods that have not ended, in the order in which the kubelet admits them. There
	// are none if the kubelet does not start.
	Pods []PodStart
	// NextStart are the faults because of which the start after this one fails.
	NextStart []quirk.Quirk
	// OtherMachine is set if the files can be of another machine. The answer is then Unsure, for
	// every pod, and Files has the reason.
	OtherMachine bool
	// Unsure are reasons why the kubelet can act in another way than shown.
	Unsure []view.Doubt

	notes []string
}

// Changes returns how many pods the start changes, and about how many it is unsure.
func (s *Start) Changes() (changed, unsure int) {
	for i := range s.Pods {
		if s.Pods[i].Outcome == Unknown {
			unsure++
		} else if s.Pods[i].Outcome != Keeps {
			changed++
		}
	}
	return changed, unsure
}

// Check reads the files of the node and answers.
func (u Upgrade) Check(r inputs.Reader) (*Upgraded, error) {
	if u.Path == "" {
		return nil, errors.New("--state is missing: add --state DIR, the kubelet's directory (/var/lib/kubelet) or a copy of its state files")
	}
	folder, err := FolderOf(u.Path)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	u.own = folder.ownMachine(r, u.Machine)
	u.Machine, u.Config = folder.MachineOr(u.Machine), cmp.Or(u.Config, folder.Config)
	if u.Pods, err = folder.Objects(r.Names, u.Pods); err != nil {
		return nil, err
	}
	if u.near, err = folder.places(r); err != nil {
		return nil, err
	}
	if u.Config == "" {
		return nil, errors.New("--kubelet-config is missing: add --kubelet-config FILE, the configuration with which the next kubelet starts (/var/lib/kubelet/config.yaml)")
	}
	names, err := u.files()
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	texts, err := Read(r, names)
	if err != nil {
		return nil, err
	}
	objects, err := r.Objects(u.Pods)
	if err != nil {
		return nil, err
	}
	pods := objects.On("")
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s: no pods there: all pods of the node are needed (kubectl get pods -A --field-selector spec.nodeName=NODE -o json)", strings.Join(u.Pods, ", "))
	}
	var notes []string
	if err := OneNode(objects); err != nil {
		return nil, err
	}
	for name, n := range objects.Nodes {
		if len(objects.Nodes) > 1 {
			break
		}
		if runs, other := otherKubelet(n, u.As); other {
			notes = append(notes, fmt.Sprintf("the Node runs kubelet %s: the present kubelet is taken to be %s", runs, u.As))
		}
		if u.node = n; u.As == (behavior.Version{}) {
			if u.As, _, err = behavior.OfNode(n.Status.NodeInfo.KubeletVersion); err != nil { // The files show which minors it can be.
				notes = append(notes, fmt.Sprintf("node %s: %v", name, err))
			}
		}
	}
	if several := nodeNames(pods); len(several) > 1 {
		return nil, fmt.Errorf("--pods has pods of nodes %s: name the pods of one node (kubectl get pods -A --field-selector spec.nodeName=NODE -o json)", strings.Join(several, ", "))
	}
	found, err := r.Machine(u.Machine)
	if err != nil {
		return nil, err
	}
	r.Minor = u.To.Minor
	config, err := r.KubeletConfig(u.Config)
	if err != nil {
		return nil, err
	}
	if err := u.complete(texts, found, config); err != nil {
		return nil, err
	}
	answer, err := u.Of(texts, pods, found, config)
	if answer != nil {
		answer.Notes = slices.Concat(answer.Notes, found.Notes, notes)
	}
	return answer, err
}

// complete returns an error if a file is missing that every kubelet with this configuration has.
func (u Upgrade) complete(texts []Text, found *discover.Found, config *kubeletcfg.Config) error {
	n, _, err := nodeAs(u.To, found, config)
	if n == nil || err != nil {
		return err
	}
	static := map[kubeletstate.Manager]bool{kubeletstate.CPUManager: n.Policy.StaticCPU, kubeletstate.MemoryManager: n.Policy.StaticMemory}
	for _, m := range managers {
		if static[m] && !slices.ContainsFunc(texts, func(t Text) bool { return t.Manager == m }) {
			return fmt.Errorf("--state: %s has no %s: copy it from the node, and name the directory with both files", u.Path, m.FileName())
		}
	}
	return nil
}

// files returns the names of all state files of the kubelet, also those about devices.
func (u Upgrade) files() ([]string, error) {
	names, err := Found{Path: u.Path}.files()
	if err != nil || !isDir(u.Path) {
		return names, err
	}
	return StateFiles(u.Path)
}

// Of is Check for files and pods that were read.
func (u Upgrade) Of(texts []Text, pods inputs.Roster, found *discover.Found, config *kubeletcfg.Config) (*Upgraded, error) {
	out := &Upgraded{To: u.To, As: u.As, Node: nodeName(pods, found), Machine: found.Machine}
	if u.As == (behavior.Version{}) {
		out.As, out.Assumed = u.present(texts)
		out.Notes = append(out.Notes, presentNote(out.As, out.Assumed))
	}
	start, err := u.start(u.To, texts, pods, found, config)
	if err != nil {
		return nil, err
	}
	out.Start = *start
	out.Notes = append(out.Notes, start.notes...)
	if out.As == u.To || out.As == (behavior.Version{}) {
		return out, nil
	}
	if out.As.Minor > u.To.Minor {
		out.Notes = append(out.Notes, fmt.Sprintf("%s is older than the present %s: this is a downgrade", u.To.Name(), out.As.Name()))
	}
	if out.Now, err = u.start(out.As, texts, pods, found, config); err != nil {
		out.Now = nil
		out.Notes = append(out.Notes, fmt.Sprintf("whether a restart of the present %s does the same is not known: %v", out.As.Name(), err))
		return out, nil
	}
	for i := range out.Pods {
		out.Pods[i].SameNow = out.Now.does(&out.Pods[i])
	}
	if out.Now.Answer == doctor.Rejects {
		out.Notes = append(out.Notes, fmt.Sprintf("the present %s would not start again either with these files and this configuration", out.As.Name()))
	}
	return out, nil
}

// does reports whether the start does the same to a pod.
func (s *Start) does(p *PodStart) bool {
	i := slices.IndexFunc(s.Pods, func(q PodStart) bool { return q.UID == p.UID })
	return p.Outcome != Keeps && i >= 0 && s.Pods[i].Outcome == p.Outcome
}

// nodeNames returns the names of the nodes to which the pods are bound, in ascending order.
func nodeNames(pods inputs.Roster) []string {
	names := map[string]bool{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			names[pod.Spec.NodeName] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// nodeName returns the name of the node of the pods, or else the name of the machine.
func nodeName(pods inputs.Roster, found *discover.Found) string {
	if names := nodeNames(pods); len(names) == 1 {
		return names[0]
	}
	return found.Name
}

// present concludes from the files which kubelet wrote them: the minor before the next one, unless
// they are of a version that only a newer one writes.
func (u Upgrade) present(texts []Text) (behavior.Version, bool) {
	minor := u.To.Minor - 1
	states, _ := split(texts)
	for _, t := range states {
		f, err := kubeletstate.Recognise(t.Data)
		if err != nil || f.Manager != t.Manager {
			continue
		}
		for m := minor; ; m++ {
			if _, known := behavior.Newest(m); !known && m > minor {
				break
			}
			if writes := (kubeletstate.Kubelet{Minor: m, PodLevelManagers: true}); writes.Writes(t.Manager) >= f.Version {
				minor = m
				break
			}
		}
	}
	return behavior.Newest(minor)
}

func presentNote(v behavior.Version, known bool) string {
	if !known {
		return "the present kubelet is not known: what of this is the same at any restart of it is not shown; name it with --as"
	}
	return fmt.Sprintf("the present kubelet is taken to be 1.%d, after its files: name it with --as if it is another one", v.Minor)
}

// start returns what the start of a kubelet does.
func (u Upgrade) start(version behavior.Version, texts []Text, pods inputs.Roster, found *discover.Found, config *kubeletcfg.Config) (*Start, error) {
	config = config.For(version.Minor)
	n, problems, err := nodeAs(version, found, config)
	if err != nil {
		return nil, err
	}
	s := &Start{Answer: doctor.Starts}
	for _, p := range problems {
		if p.Kubelet != "" {
			s.Answer = doctor.Rejects
			s.Problems = append(s.Problems, p)
		}
	}
	if s.Answer == doctor.Rejects {
		return s, nil
	}
	if len(problems) > 0 {
		s.Answer, s.Problems = doctor.Unsure, problems
		s.unsureOf(pods, view.Doubt{Reason: fmt.Sprintf("with this %s, it is not known what the kubelet does", problems[0].Field), Give: "ask with another " + problems[0].Field})
		return s, nil
	}
	files := Found{Path: u.Path, Pods: pods, Version: version, Near: u.near, Own: u.own, Node: u.node, Unlinked: u.node == nil, Copied: true, NextConfig: true, SameMachine: u.SameMachine}
	var doubt *view.Doubt
	s.Files, doubt = files.Verify(texts, setupOf(version, n))
	if s.Answer = Answer(s.Files); s.Answer == doctor.Rejects {
		return s, nil
	}
	if doubt != nil {
		s.Answer, s.OtherMachine = doctor.Unsure, true
		s.unsureOf(pods, view.Doubt{Reason: "the files can be of another machine", Give: doubt.Give})
		return s, nil
	}
	return s, s.decide(files, texts, pods, n)
}

func setupOf(version behavior.Version, n *inputs.Node) doctor.Setup {
	policy := &n.Policy.Policy
	return doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: version.Minor, PodLevelManagers: policy.PodLevelManagers}, Machine: n.Found.Machine, Policy: policy}
}

// nodeAs returns the node as the kubelet resolves its configuration, or all problems of the
// configuration.
func nodeAs(version behavior.Version, found *discover.Found, config *kubeletcfg.Config) (*inputs.Node, []kubeletcfg.Problem, error) {
	policy, err := config.Resolve(found.Machine)
	problems := config.KubeletRejects(found.Machine)
	if rejected := (*kubeletcfg.RejectedError)(nil); errors.As(err, &rejected) {
		return nil, append(slices.Clone(rejected.Problems), problems...), nil
	} else if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	policy = quirk.New(version).Policy(found.Machine, policy, quirk.Setup{ByNumber: !config.NamesReserved()})
	n, err := nodeWith(found, policy)
	return n, nil, err
}

// nodeOf returns the node of a setup.
func nodeOf(s doctor.Setup) (*inputs.Node, error) {
	return nodeWith(&discover.Found{Machine: s.Machine}, *s.Policy)
}

// nodeWith returns a node of whose devices only those are known that its files have.
func nodeWith(found *discover.Found, policy node.Policy) (*inputs.Node, error) {
	none, err := device.NewInventory(found.Machine, nil)
	if err != nil {
		return nil, err
	}
	return &inputs.Node{Found: found, Policy: inputs.Policy{Policy: policy, Text: kubeletcfg.Describe(policy)}, Devices: none}, nil
}
