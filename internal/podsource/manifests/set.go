package manifests

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/podspec"
)

// Set is what the manifests ask for at one time.
type Set struct {
	// Pods are the pods that should run, in the order of the paths and files. They are defaulted
	// and valid, podspec.Request gives no error for them, and no two have one UID. They may be
	// shared with other Sets and must not be changed.
	Pods []podspec.Source
	// Broken is what is wrong, in the order of the paths and files.
	Broken []Problem
	// Partial tells that something is broken that could never be read since the start: pods that
	// are not in the set may be meant to run.
	Partial bool
	// Notes tell, a line each, of what gives no pods and is no error.
	Notes []string
}

// Problem is a file or a directory that cannot be taken as it is.
type Problem struct {
	File string
	// Err names the file, and what is wrong where.
	Err error
	// Kept is how many pods of before are kept in the set because of it.
	Kept int
}

// problem says in the error, too, what is kept.
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

// census refuses pods that are there already.
type census struct {
	uids, names map[string]podspec.Origin
}

func newCensus() census {
	return census{uids: map[string]podspec.Origin{}, names: map[string]podspec.Origin{}}
}

// add counts a pod, or says why it cannot be there. As within one file, two pods have one UID or
// are two manifests of one name; the pods of controllers may have the names of others.
func (c census) add(s podspec.Source) error {
	if len(c.uids) == podspec.MaxPods {
		return fmt.Errorf("%s: the files together have more than %d pods, the most that can be read; it is left out", s.Origin, podspec.MaxPods)
	}
	uid, id := string(s.Pod.UID), s.Pod.Namespace+"/"+s.Pod.Name
	if first, there := c.uids[uid]; there {
		return fmt.Errorf("%s: a pod with uid %s is there already and stays, this one is left out: %s", s.Origin, uid, first)
	}
	if first, there := c.names[id]; there && isPod(s) {
		return fmt.Errorf("%s: a pod %s is there already and stays, this one is left out: %s", s.Origin, id, first)
	}
	c.uids[uid] = s.Origin
	if isPod(s) {
		c.names[id] = s.Origin
	}
	return nil
}

// isPod tells whether the manifest is of the pod itself and not of a controller.
func isPod(s podspec.Source) bool { return strings.HasPrefix(s.Object, "Pod ") }

// admit adds the pods of one file and returns what became of them: nil, or the first that is
// left out and how many more are.
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
		return fmt.Errorf("%w; so are %d more of this file", first, more)
	}
	return first
}
