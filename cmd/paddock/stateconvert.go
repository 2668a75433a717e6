package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/doctor"
	"github.com/paddock-project/paddock/internal/kubeletstate"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/statefile"
	"github.com/paddock-project/paddock/internal/view"
)

// paddockTarget is --to for Paddock's own file.
const paddockTarget = "paddock"

// stateTargets are the other values of --to.
var stateTargets = map[string]kubeletstate.Kubelet{
	"kubelet-1.35":          {Minor: 35},
	"kubelet-1.36":          {Minor: 36, PodLevelManagers: true},
	"kubelet-1.36-gate-off": {Minor: 36},
	"kubelet-1.37":          {Minor: 37, PodLevelManagers: true},
	"kubelet-1.37-gate-off": {Minor: 37},
}

// stateConvertCommand is one call of paddock state convert.
type stateConvertCommand struct {
	to, save string
	dryRun   bool
	machine  machineFlag
	config   kubeletConfig
	pods     podsFlag
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
}

func newStateConvertCommand() *cobra.Command {
	var c stateConvertCommand
	targets := strings.Join(append(slices.Sorted(maps.Keys(stateTargets)), paddockTarget), ", ")
	cmd := &cobra.Command{
		Use:   "convert --to TARGET FILE...",
		Short: "Make state files for another kubelet, or for Paddock",
		Long: `Convert makes the CPU and memory states of one kubelet those of another, so that an upgrade,
a downgrade or a switched gate PodLevelResourceManagers needs no drain. It says what the new
kubelet does with every pod, and names everything that has no place in the new files. Pools of
pods have none before 1.36 and with the gate off: their containers keep what they have of them.

TARGET is one of ` + targets + `.
1.36 and 1.37 mean kubelets with the gate on.

Name both files of the node. They are replaced in place, unless --save names another
directory, and what was there is kept beside them as NAME.before-1. Stop the kubelet first.
With --kubelet-config, the new kubelet's, they are written only if it would start on them.

From kubelet to paddock --save names the file, --machine and --kubelet-config are those of the
agent, and --pods must name every running pod. From paddock to kubelet FILE is the state of
the agent, --machine its machine, and --save the directory.

Exit codes: 0 done, 1 error, 2 the new kubelet would not start on it.`,
		Example: `  systemctl stop kubelet
  paddock state convert --to kubelet-1.35 --dry-run /var/lib/kubelet/*_manager_state
  paddock state convert --to kubelet-1.35 /var/lib/kubelet/*_manager_state`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.stdin, c.stdout, c.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.run(args)
		},
	}
	cmd.Flags().StringVar(&c.to, "to", "", "whose files they become: the `TARGET`")
	cmd.Flags().StringVar(&c.save, "save", "", "write into the directory `PATH`, or, for Paddock, to the file")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would be done, and do nothing")
	c.machine.register(cmd)
	c.config.register(cmd)
	c.pods.register(cmd, "who the UIDs are")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // The flag was defined above.
	}
	return cmd
}

func (c *stateConvertCommand) run(names []string) error {
	kubelet, known := stateTargets[c.to]
	if !known && c.to != paddockTarget {
		return fmt.Errorf("--to %q: want %s or %s", c.to, strings.Join(slices.Sorted(maps.Keys(stateTargets)), ", "), paddockTarget)
	}
	if err := noStdin(names); err != nil {
		return err
	}
	pods, err := c.pods.load(c.stdin)
	if err != nil {
		return err
	}
	if data, err := readInput(names[0], c.stdin); err != nil {
		return err
	} else if isPaddocks(data) {
		if !known || len(names) > 1 {
			return fmt.Errorf("%s is a state of Paddock: name it alone, and a kubelet as --to", names[0])
		}
		return c.fromPaddock(names[0], data, kubelet)
	}
	texts, err := readStates(names, c.stdin)
	if err != nil {
		return err
	}
	old, err := c.read(texts)
	if err != nil {
		return err
	}
	if !known {
		return c.toPaddock(old, pods)
	}
	if len(texts) == 1 {
		fmt.Fprintf(c.stderr, "paddock: note: only the state of the %s is converted; a kubelet reads both\n", texts[0].manager)
	}
	now, remarks, err := doctor.Convert(old, kubelet, ownersOf(pods))
	if err != nil {
		return err
	}
	return c.write(old, now, remarks, kubelet, texts, pods)
}

func isPaddocks(data []byte) bool {
	return strings.HasPrefix(string(data), `{"format":"paddock-state"`)
}

// read takes files whose checksums hold: what is changed by chance is no basis.
func (c *stateConvertCommand) read(texts []stateText) (*doctor.State, error) {
	old := &doctor.State{}
	for _, text := range texts {
		f, err := kubeletstate.Recognise(text.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.name, err)
		}
		if f.Manager != text.manager {
			return nil, fmt.Errorf("%s: it is a state of the %s", text.name, f.Manager)
		}
		if !f.Holds() {
			return nil, fmt.Errorf(`%s: its checksum is wrong; run "paddock state verify" and "paddock state repair" first`, text.name)
		}
		for _, u := range f.Unknown {
			fmt.Fprintf(c.stderr, "paddock: note: %s: field %s is not known and gets lost: %s\n", text.name, u.Path, u.Value)
		}
		old.Add(f)
	}
	return old, nil
}

// ownersOf finds containers by id in the status of pods.
func ownersOf(pods map[string]*v1.Pod) map[string]doctor.Owner {
	owners := map[string]doctor.Owner{}
	for uid, pod := range pods {
		for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for _, status := range list {
				_, id, _ := strings.Cut(status.ContainerID, "://")
				owners[id] = doctor.Owner{UID: uid, Container: status.Name}
			}
		}
	}
	return owners
}

// write shows the conversion and does it.
func (c *stateConvertCommand) write(old, now *doctor.State, remarks []doctor.Remark, to kubeletstate.Kubelet, texts []stateText, pods map[string]*v1.Pod) error {
	files, err := now.Encode(to)
	if err != nil {
		return err
	}
	if err := c.verify(files, to); err != nil {
		return err
	}
	table := view.Table{Columns: []view.Column{{Title: "POD"}, {Title: "WHAT THE KUBELET DOES WHEN IT STARTS"}}}
	for _, uid := range old.Pods() {
		table.Row(podName(pods, uid), doctor.Fate(old, uid, to))
	}
	said := fmt.Sprintf("for kubelet %s:\n\n", to)
	if len(old.Pods()) > 0 {
		said += table.Text(styleFor(c.stdout)) + "\n"
	}
	return finish(c.stdout, said+remarksText(remarks, pods), toKubelet(files, c.save, texts), c.dryRun)
}

// verify holds the new files against the configuration of the new kubelet, if that is known.
func (c *stateConvertCommand) verify(files map[kubeletstate.Manager][]byte, to kubeletstate.Kubelet) error {
	if c.config.name == "" {
		return nil
	}
	found, err := c.machine.load(c.stdin)
	if err != nil {
		return err
	}
	policy, err := c.config.load(found.Machine, c.stdin)
	if err != nil {
		return err
	}
	policy.PodLevelManagers = to.PodLevelManagers
	if err := doctor.Check(files, doctor.Setup{Kubelet: to, Machine: found.Machine, Policy: policy}); err != nil {
		return &exitError{code: 2, err: fmt.Errorf("with %s: %w", c.config.name, err)}
	}
	return nil
}

// remarksText says what changes, what a person must check first, then losses, and ends in an empty line.
func remarksText(remarks []doctor.Remark, pods map[string]*v1.Pod) string {
	word := func(r doctor.Remark) string {
		switch {
		case r.Check:
			return "check"
		case r.Lost:
			return "lost"
		}
		return "changed"
	}
	var out strings.Builder
	for _, kind := range []string{"check", "lost", "changed"} {
		for _, r := range remarks {
			if word(r) != kind {
				continue
			}
			who := ""
			if r.UID != "" {
				who = "pod " + podName(pods, r.UID) + ": "
			}
			fmt.Fprintf(&out, "%s: %s%s\n", kind, who, r.What)
		}
	}
	if len(remarks) > 0 {
		out.WriteByte('\n')
	}
	return out.String()
}

func (c *stateConvertCommand) fromPaddock(name string, data []byte, to kubeletstate.Kubelet) error {
	if c.save == "" {
		return errors.New("--save is missing: the directory for the kubelet's files, such as /var/lib/kubelet")
	}
	file, err := statefile.Decode(name, data)
	if err != nil {
		return err
	}
	found, err := c.machine.load(c.stdin)
	if err != nil {
		return err
	}
	whole, lost, err := doctor.FromPaddock(file, found.Machine)
	if err != nil {
		return err
	}
	now, remarks, err := doctor.Convert(whole, to, nil)
	if err != nil {
		return err
	}
	pods := map[string]*v1.Pod{}
	for _, g := range file.Grants {
		pod := &v1.Pod{}
		pod.Namespace, pod.Name = g.Pod.Namespace, g.Pod.Name
		pods[g.Pod.UID] = pod
	}
	return c.write(whole, now, append(lost, remarks...), to, nil, pods)
}

func (c *stateConvertCommand) toPaddock(old *doctor.State, pods map[string]*v1.Pod) error {
	if c.save == "" || c.config.name == "" || !c.pods.given() {
		return errors.New("--to paddock needs --save FILE, --kubelet-config FILE, the agent's, and --pods, all that run on the node")
	}
	found, err := c.machine.load(c.stdin)
	if err != nil {
		return err
	}
	policy, err := c.config.load(found.Machine, c.stdin)
	if err != nil {
		return err
	}
	gates := podspec.GatesOf(*policy)
	asked, err := requestsOf(pods, gates)
	if err != nil {
		return err
	}
	state, err := doctor.ToPaddock(old, found.Machine, *policy, asked)
	if err != nil {
		return err
	}
	data, err := statefile.Encode(state)
	if err != nil {
		return err
	}
	said := fmt.Sprintf("%d pods have assignments; the node shared pool is %s\n", len(state.Grants()), view.CPUs(state.SharedCPUs()))
	return finish(c.stdout, said, []*replacement{{path: c.save, data: data, agents: true}}, c.dryRun)
}

// requestsOf are what the pods that run ask for, in the order in which they were made.
func requestsOf(pods map[string]*v1.Pod, gates podspec.Gates) ([]request.Pod, error) {
	uids := slices.Sorted(maps.Keys(pods))
	slices.SortStableFunc(uids, func(a, b string) int {
		return pods[a].CreationTimestamp.Compare(pods[b].CreationTimestamp.Time)
	})
	var asked []request.Pod
	for _, uid := range uids {
		if ended(pods[uid]) {
			continue
		}
		r, err := podspec.Request(podspec.Default(pods[uid], gates), gates)
		if err != nil {
			return nil, err
		}
		asked = append(asked, r)
	}
	return asked, nil
}

// ended pods hold nothing any more.
func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
