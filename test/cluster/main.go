// Command cluster runs Paddock on a cluster of hollow nodes and checks that no pod is bound to a
// node that rejects it. README.md describes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/stock"
)

func main() {
	if err := run(); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "cluster:", err)
		}
		os.Exit(1)
	}
}

// run runs the driver. With the argument "hollow", it runs the nodes. It ends on a signal.
func run() error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if args := os.Args[1:]; len(args) > 0 && args[0] == "hollow" {
		return runHollow(ctx, args[1:])
	}
	return runCluster(ctx, os.Args[1:])
}

// say prints progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// newConfig reads a kubeconfig for a client without rate limits, because the client is the load.
func newConfig(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return config, nil
}

const kubeletsHelp = "MINOR=PROGRAM for each minor version of the kubelets that decide, separated by commas; PROGRAM is built of test/record/kubelet-MINOR. If empty, Paddock decides"

// runHollow runs the process of the hollow nodes.
func runHollow(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hollow", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "of an administrator")
	file := flags.String("fleet", "fleet.yaml", "the machine kinds")
	count := flags.Int("nodes", 200, "how many nodes")
	listen := flags.String("listen", "", "the address for the kubelets' lists and for the driver")
	own := flags.Bool("own-policies", false, "the machine kinds have the policies of their file")
	kubelets := flags.String("kubelets", "", kubeletsHelp)
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := newConfig(*kubeconfig)
	if err != nil {
		return err
	}
	programs, err := stock.Programs(*kubelets)
	if err != nil {
		return err
	}
	kinds, err := hollow.ReadKinds(*file, *count, stock.Minors(programs), *own)
	if err != nil {
		return err
	}
	processes := map[string]*stock.Process{}
	for minor, program := range programs {
		if processes[minor], err = stock.Start(ctx, program); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fleet, err := hollow.New(ctx, config, kinds, listener.Addr().String(), processes)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- fleet.Serve(ctx, listener) }()
	if err := fleet.Run(ctx, func() { fmt.Println("ready") }); err != nil {
		return err
	}
	return <-served
}
