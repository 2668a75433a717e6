package cgroup

// Gone is for tests: no other file system has files that answer like those of a cgroup that was
// removed.
var Gone = gone
