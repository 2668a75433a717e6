package build

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
)

// Edition describes a program: its build, the kubelets that it predicts, and the formats that it
// reads and writes. It is the answer of the command version, in all programs.
type Edition struct {
	// Program is the name of the program, such as paddock-scheduler.
	Program string `json:"program"`
	// Version is a release such as v0.1.0. A build between two releases has a pseudo-version, which
	// sorts between them. A build without git has "devel".
	Version string `json:"version"`
	// Revision is the git commit.
	Revision string `json:"revision,omitempty"`
	// GoVersion is the release of Go that compiled the program.
	GoVersion string `json:"goVersion"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
	// KubeScheduler is the version of the kube-scheduler in the program, if there is one.
	KubeScheduler string `json:"kubeScheduler,omitempty"`
	// Kubelets are the kubelets whose decisions the program predicts: the newest patch of each
	// minor whose answers are recorded.
	Kubelets []string `json:"kubelets,omitempty"`
	// Formats are the formats that the program shares with other programs.
	Formats []Format `json:"formats,omitempty"`
}

// Format is a format or an interface with its version.
type Format struct {
	// Name is the name of an API, a kind of object, a file or an annotation.
	Name string `json:"name"`
	// Version is the version that the program writes, and the newest that it reads.
	Version string `json:"version"`
}

// PodResources is the kubelet's PodResources API.
func PodResources() Format { return Format{"PodResources", "v1"} }

// EditionOf returns the edition of this program. A program that predicts kubelets, or shares
// formats with other programs, adds these.
func EditionOf(program string) Edition {
	return Edition{
		Program: program, Version: Version(), Revision: Revision(), GoVersion: runtime.Version(), Platform: Platform(),
	}
}

// Described returns the version with the Go and the platform of this program, and what else is
// given: "v0.1.0 (go1.26.8, linux/amd64)". In the answer to --version, it follows the name of the
// program.
func Described(more ...string) string {
	return fmt.Sprintf("%s (%s)", Version(), strings.Join(append([]string{runtime.Version(), Platform()}, more...), ", "))
}

// Text formats an edition for people.
func (e Edition) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", e.Program, e.Version)
	width := len("kubelets")
	if e.KubeScheduler != "" {
		width = len("kube-scheduler")
	}
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&out, "%-*s  %s\n", width, label, text)
		}
	}
	line("commit", e.Revision)
	line("built", "with "+e.GoVersion+" for "+e.Platform)
	line("kube-scheduler", e.KubeScheduler)
	line("kubelets", strings.Join(e.Kubelets, ", "))
	label := "formats"
	for _, f := range e.Formats {
		line(label, f.Name+" "+f.Version)
		label = ""
	}
	return out.String()
}

// APIVersion is the apiVersion of the documents of all commands. It equals that of api/v1alpha1,
// which programs with little memory do not link.
const APIVersion = "paddock-project.github.io/v1alpha1"

// JSON returns an edition as a document with its apiVersion and kind.
func (e Edition) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Edition
	}{APIVersion, "Version", e}, "", "  ")
	return append(data, '\n'), err
}
