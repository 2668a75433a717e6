package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

// Question is a command to be run in an agent's container.
type Question struct {
	// Name is the name of the command: explain, map, pods, report, trust or verify.
	Name string
	// Pod is NAMESPACE/NAME, for explain.
	Pod string
	// Flags are passed on to the command.
	Flags []string
}

// Of reports whether the question is about the agent's kind of node. Verify compares what runs with
// what Paddock decided, and trust compares what a kubelet decided with a prediction.
func (q Question) Of(a Agent) bool {
	switch q.Name {
	case "trust":
		return a.Observes
	case "verify":
		return !a.Observes
	}
	return true
}

// config has the fields of the agent's configuration that its commands need.
type config struct {
	Decides, Machine, KubeletConfig, Devices, State, Listen string
	PodResources                                            struct{ Socket string }
	Kubelet                                                 struct{ PodResources string }
}

// command returns the question as arguments of the program, for an agent with this configuration.
func (q Question) command(c config) ([]string, error) {
	if c.Decides == "kubelet" {
		return q.ofObserver(c)
	}
	args := []string{q.Name}
	switch q.Name {
	case "trust":
		return nil, errors.New("Paddock decides there, so that there is no kubelet to predict: kubectl paddock verify compares what runs with what Paddock decided")
	case "explain":
		if c.Listen == "" {
			return nil, errors.New("its agent listens on no address, so it cannot be asked about a pod: set listen in its configuration")
		}
		args = append(args, q.Pod, "--agent="+c.Listen)
	case "pods":
		if c.PodResources.Socket == "" {
			return nil, errors.New("its agent does not serve the PodResources API: set podResources.socket in its configuration")
		}
		args = append(args, "--socket", c.PodResources.Socket)
	default:
		args = append(args, "--machine", c.Machine, "--kubelet-config", c.KubeletConfig, "--state", c.State)
		if c.Devices != "" {
			args = append(args, "--devices", c.Devices)
		}
	}
	return append(args, q.Flags...), nil
}

// ofObserver is command for an agent that observes the kubelet of its node. It has no state file,
// so it is asked for everything that it shows, and the kubelet for what pods have.
func (q Question) ofObserver(c config) ([]string, error) {
	switch {
	case q.Name == "pods" && c.Kubelet.PodResources == "":
		return nil, errors.New("its agent does not use the kubelet's PodResources API: set kubelet.podResources in its configuration")
	case q.Name == "pods":
		return append([]string{q.Name, "--socket", c.Kubelet.PodResources}, q.Flags...), nil
	case c.Listen == "":
		return nil, errors.New("its agent listens on no address, so it cannot be asked: set listen in its configuration")
	}
	args := []string{q.Name}
	if q.Pod != "" {
		args = append(args, q.Pod)
	}
	return append(append(args, "--agent="+c.Listen), q.Flags...), nil
}

// maxConfig limits the configuration that an agent prints, in bytes. It has a few hundred lines at
// most.
const maxConfig = 1 << 20

// Ask runs a question in an agent's container. The output of the command goes to stdout and stderr.
// Ask returns an *ExitError if the command exits with a code other than 0.
func (c *Cluster) Ask(ctx context.Context, a Agent, q Question, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if q.Name == "verify" { // verify takes the flags of the agent.
		args := append([]string{a.program, q.Name}, a.args...)
		return c.run(ctx, a, append(args, q.Flags...), stdout, stderr)
	}
	var printed, complaint limited
	printed.limit, complaint.limit = maxConfig, maxConfig
	args := append([]string{a.program, "agent"}, a.args...)
	if err := c.run(ctx, a, append(args, "--print-config"), &printed, &complaint); err != nil {
		if exit := (*ExitError)(nil); errors.As(err, &exit) {
			return fmt.Errorf("the agent's configuration cannot be read: %s", bytes.TrimSpace(complaint.Bytes()))
		}
		return err
	}
	var of config
	if err := yaml.Unmarshal(printed.Bytes(), &of); err != nil {
		return fmt.Errorf("the agent's configuration cannot be read: %w", err)
	}
	command, err := q.command(of)
	if err != nil {
		return err
	}
	return c.run(ctx, a, append([]string{a.program}, command...), stdout, stderr)
}

// limited keeps the bytes that are written, up to a limit.
type limited struct {
	bytes.Buffer
	limit int
}

func (l *limited) Write(data []byte) (int, error) {
	if l.Len()+len(data) > l.limit {
		return 0, fmt.Errorf("%w: more than %d bytes", bounded.ErrTooLarge, l.limit)
	}
	return l.Buffer.Write(data)
}

// Answer is the output of one of several agents.
type Answer struct {
	Agent          Agent
	Stdout, Stderr []byte
	Err            error // as Ask returns it
}

const (
	// atOnce limits the connections to the API server, which proxies each of them to a kubelet.
	atOnce = 8
	// maxAnswer limits the part of an answer that is kept, in bytes. Answers of the largest
	// machines have on the order of 100 KiB.
	maxAnswer = 8 << 20
)

// AskAll asks several agents. It calls each with the answers in the order of the agents, as soon as
// an answer and all before it are complete.
func (c *Cluster) AskAll(ctx context.Context, agents []Agent, q Question, each func(Answer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(atOnce)
	answers := make([]chan Answer, len(agents))
	for i := range agents {
		answers[i] = make(chan Answer, 1)
	}
	go func() {
		for i, a := range agents {
			group.Go(func() error {
				var stdout, stderr limited
				stdout.limit, stderr.limit = maxAnswer, maxAnswer
				err := c.Ask(ctx, a, q, &stdout, &stderr)
				answers[i] <- Answer{a, stdout.Bytes(), stderr.Bytes(), err}
				return nil
			})
		}
	}()
	for _, answer := range answers {
		if err := each(<-answer); err != nil {
			return err
		}
	}
	return nil
}
