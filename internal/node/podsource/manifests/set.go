package manifests

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Set is the set of pods in the manifests at one time.
type Set struct {
	// Pods are the pods that should run, in the order of the paths and files. They are defaulted
	// and valid, podspec.Request returns no error for them, and no two have the same UID. They may
	// be shared with other Sets and must not be changed.
	Pods []podspec.Source
	// Broken has the files and directories with errors, in the order of the paths and files.
	Broken []Problem
	// Partial is true if a file or directory has not been readable since the start. Pods that are
	// not in the set may then have to run.
	Partial bool
	// Notes has a line for each object that is not a pod and not an error.
	Notes []string
}

// Problem is a file or a directory with an error.
type Problem struct {
	File string
	// Err names the file, and describes what is wrong and where.
	Err error
	// Kept is the number of earlier pods that stay in the set because of it.
	Kept int
}

// problem returns a Problem whose error includes the number of pods that are kept.
func problem(file string, err error, kept int) Problem {
	switch kept {
	case 0:
	case 1:
		err = fmt.Errorf("%w; the pod that was read from it before is kept", err)
	default:
		err = fmt.Errorf("%w; the %d pods that were read from it before are kept", err, kept)
	}
	return Problem{File: file, Err: err, Kept: kept}
}

// census finds pods that are already in the set.
type census struct {
	uids, names map[string]podspec.Origin
}

// add counts a pod, or returns an error if the pod is already counted: by its UID or, for manifests
// of pods, by its name. The pods of controllers may have the names of other pods.
func (c census) add(s podspec.Source) error {
	if len(c.uids) == podspec.MaxPods {
		return fmt.Errorf("%s: the pod is ignored, because all files together have more than %d pods, the limit", s.Origin, podspec.MaxPods)
	}
	uid, id := string(s.Pod.UID), s.Pod.Namespace+"/"+s.Pod.Name
	if first, there := c.uids[uid]; there {
		return fmt.Errorf("%s: the pod is ignored, because another one has the same uid %s: %s", s.Origin, uid, first)
	}
	if first, there := c.names[id]; there && isPod(s) {
		return fmt.Errorf("%s: the pod is ignored, because another one has the same name %s: %s", s.Origin, id, first)
	}
	c.uids[uid] = s.Origin
	if isPod(s) {
		c.names[id] = s.Origin
	}
	return nil
}

// isPod reports whether the manifest describes the pod itself and not a controller.
func isPod(s podspec.Source) bool { return strings.HasPrefix(s.Object, "Pod ") }

// admit adds the pods of one file. The error describes the first pod that is left out, and the
// number of further ones.
func (c census) admit(set *Set, pods []podspec.Source) error {
	var first error
	more := 0
	for _, s := range pods {
		err := c.add(s)
		switch {
		case err == nil:
			set.Pods = append(set.Pods, s)
		case first == nil:
			first = err
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Errorf("%w; %d more pods of this file are ignored too", first, more)
	}
	return first
}
