package fleet

import "fmt"

// View returns a node as it is now. It never changes, so it can be kept and passed to Set later.
func (f *Fleet) View(name string) (*View, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return f.members[i], true
}

// Set replaces the node with the name of the view: by what it was before, or by what it has become
// meanwhile. The view must be of the fleet's ranking. The rules of the fleet do not see it, so a
// fleet that obeys rules must not use it. The error is ErrUnknown.
func (f *Fleet) Set(v *View) error {
	i, ok := f.byName[v.Name]
	if !ok {
		return fmt.Errorf("%s: %w", v.Name, ErrUnknown)
	}
	if f.members[i] != v {
		f.changed(i, v)
	}
	return nil
}

// Forget drops the answers that are kept for classes if there are more than limit classes, and
// returns whether it did. A class of a fleet of 5,000 nodes takes about 1 MB. Classes that callers
// have must not be used afterwards. Without classes, it only forgets which nodes have changed: a
// fleet that is asked for no class would otherwise remember every change.
func (f *Fleet) Forget(limit int) bool {
	if len(f.classes) == 0 {
		f.changes = nil
	}
	if len(f.classes) <= limit {
		return false
	}
	clear(f.classes)
	f.changes = nil
	return true
}
