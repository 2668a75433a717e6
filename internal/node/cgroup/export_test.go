package cgroup

// Gone exports gone for tests, because no other file system has files that behave like those of a
// removed cgroup.
var Gone = gone
