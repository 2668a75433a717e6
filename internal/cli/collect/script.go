package collect

import (
	_ "embed" // for the parts of the script
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/paddock-project/paddock/internal/base/spelling"
)

// The ways to read files of a node.
const (
	// Debug reads them in a pod that kubectl debug creates.
	Debug = "debug"
	// SSH reads them through ssh.
	SSH = "ssh"
)

// Defaults of a Script.
const (
	DefaultImage      = "busybox:1.37" // A version, so that each run reads with the same programs.
	DefaultNamespace  = "default"
	DefaultKubeletDir = "/var/lib/kubelet"
)

// The parts of the script. The way defines functions that the rest calls.
var (
	//go:embed debug.sh
	debugPart string
	//go:embed ssh.sh
	sshPart string
	//go:embed collect.sh
	lastPart string
)

// Script describes a script that collects the inputs of a node's decisions. Errors of Text name the
// flags that set its fields.
type Script struct {
	// Version is the version of Paddock that prints the script.
	Version string
	// Node is the name of the node. If empty, it is the first argument of the script.
	Node string
	// Via is Debug or SSH.
	Via string
	// Image and Namespace are of the debug pod. Host is for ssh; if empty, it is the node's name.
	Image, Namespace, Host string
	// KubeletDir is the kubelet's root directory on the node.
	KubeletDir string
	// Folder is the folder to make. If empty, its name has the name of the node.
	Folder string
	// Anonymize hashes names.
	Anonymize bool
	// Context and Kubeconfig are given to each kubectl of the script. They may be empty.
	Context, Kubeconfig string
}

var (
	// plainPath matches paths that the shell of a node reads as one word.
	plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._@%+=:,-]+)+$`)
	// plainWord matches hosts and images. None begins with "-", which would be a flag.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9_\[][A-Za-z0-9._@%+=:,/\[\]-]*$`)
)

func (s Script) check() error {
	if len(validation.IsDNS1123Subdomain(s.Node)) > 0 && s.Node != "" {
		return fmt.Errorf("--node %q: expected the name of a Node: kubectl get nodes prints them", s.Node)
	}
	switch {
	case s.Via != Debug && s.Via != SSH:
		return fmt.Errorf("--via: %q is unknown: %s", s.Via, spelling.Expected(s.Via, []string{Debug, SSH}))
	case s.Via == Debug && !plainWord.MatchString(s.Image):
		return fmt.Errorf("--image %q: expected the name of an image, such as %s", s.Image, DefaultImage)
	case s.Via == Debug && len(validation.IsDNS1123Label(s.Namespace)) > 0:
		return fmt.Errorf("--namespace %q: expected the name of a namespace that admits privileged pods", s.Namespace)
	case s.Host != "" && !plainWord.MatchString(s.Host):
		return fmt.Errorf("--host %q: expected HOST or USER@HOST", s.Host)
	case !plainPath.MatchString(s.KubeletDir):
		return fmt.Errorf("--kubelet-dir %q: expected the kubelet's root directory as an absolute path without spaces and quotes, such as %s", s.KubeletDir, DefaultKubeletDir)
	case strings.ContainsAny(s.Folder, "\x00\n\r"):
		return errors.New("--folder: expected a path on one line")
	case strings.ContainsAny(s.Context+s.Kubeconfig, "\x00\n\r"):
		return errors.New("--context and --kubeconfig: expected words on one line")
	}
	return nil
}

// Text returns the script.
func (s Script) Text() (string, error) {
	s.KubeletDir = strings.TrimRight(s.KubeletDir, "/")
	if err := s.check(); err != nil {
		return "", err
	}
	call := "sh collect.sh"
	if s.Node == "" {
		call += " NODE"
	}
	touches := "It installs nothing on the node, and only reads there."
	if s.Via == Debug {
		touches = "It installs nothing on the node. It runs one privileged pod there and deletes it.\n" +
			"# Like any new pod, that makes the kubelet release what ended pods had; --via ssh changes nothing."
	}
	var b strings.Builder
	fmt.Fprintf(&b, `#!/bin/sh
# Collects into one folder what decides which pods the kubelet of a node admits, for "paddock
# explain". %s
# Read it, and then run it:
#
#   %s
#
# Printed by paddock collect --print, version %s.
set -eu
umask 077

`, touches, call, s.Version)
	if s.Node == "" {
		b.WriteString("node=${1-}\n")
	} else {
		b.WriteString("node=" + quote(s.Node) + "\n")
	}
	s.way(&b)
	b.WriteString("directory=" + quote(s.KubeletDir) + " # the kubelet's root directory\n")
	b.WriteString("elsewhere='print the script with the right --kubelet-dir: MicroK8s has /var/snap/microk8s/common/var/lib/kubelet, k0s has /var/lib/k0s/kubelet'\n")
	s.objects(&b)
	s.kubectl(&b)
	b.WriteString("\n")
	if s.Via == Debug {
		b.WriteString(debugPart)
	} else {
		b.WriteString(sshPart)
	}
	b.WriteString("\n" + lastPart)
	return b.String(), nil
}

// kubectl writes how the script calls kubectl: with a limit for each request, so that an API server
// that does not answer does not stop it for ever.
func (s Script) kubectl(b *strings.Builder) {
	flags := ""
	if s.Kubeconfig != "" {
		flags += " --kubeconfig " + quote(s.Kubeconfig)
	}
	if s.Context != "" {
		flags += " --context " + quote(s.Context)
	}
	b.WriteString("\ntimeout=30s # of each request to the API server\n" +
		"kubectl() { command kubectl" + flags + " --request-timeout \"$timeout\" \"$@\"; }\n")
}

// way writes what is needed to reach the node.
func (s Script) way(b *strings.Builder) {
	switch {
	case s.Via == Debug:
		b.WriteString("image=" + quote(s.Image) + "\nnamespace=" + quote(s.Namespace) + " # of the debug pod\n")
	case s.Host == "":
		b.WriteString("host=$node\n")
	default:
		b.WriteString("host=" + quote(s.Host) + "\n")
	}
}

// objects writes which files are collected, where, and how objects are reduced.
func (s Script) objects(b *strings.Builder) {
	folder := quote(s.Folder)
	switch {
	case s.Folder != "":
	case s.Anonymize:
		folder = "./paddock-anonymous"
	default:
		folder = `"./paddock-$node"`
	}
	b.WriteString("folder=" + folder + "\n")
	states := "cpu_manager_state memory_manager_state device-plugins/kubelet_internal_checkpoint"
	if !s.Anonymize {
		fmt.Fprintf(b, "states='%s dra_manager_state'\nanonymous=no\n\n", states)
		b.WriteString("# Only the fields that decide leave the cluster: no environments, arguments, volumes, or labels and\n" +
			"# annotations of yours. See paddock collect --help.\n" +
			"filter() { paddock collect --filter; }\n")
		return
	}
	fmt.Fprintf(b, "states='%s' # dra_manager_state has names, and a checksum over them\nanonymous=yes\n\n", states)
	b.WriteString("# Only the fields that decide leave the cluster, and the names of pods, namespaces, claims and the\n" +
		"# node are hashed with a key that exists only while this script runs. UIDs and the names of\n" +
		"# containers and resources remain: the kubelet's files have them as keys.\n" +
		KeyVariable + "=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')\n" +
		"export " + KeyVariable + "\n" +
		"filter() { paddock collect --filter --anonymize; }\n")
}

// quote returns a text as one word of a shell.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
