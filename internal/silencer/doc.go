// Package silencer is the process of paddock quiet: it keeps the exclusive CPUs of a node quiet.
//
// Package internal/node/quiet decides, and internal/node/kernelsettings reads and writes the files.
// This package follows which container has which CPUs, saves what files had before, and runs one
// round after the other:
//
//	follow.Containers ──► quiet.New ──► save ──► write and read again ──► quiet.Plan.After ──► save
//
// Nothing is written before it is saved. A round that cannot be saved writes nothing. A source of
// containers that does not answer keeps the containers that it had, so that a restart of the agent
// or of the kubelet gives no CPU back.
//
// The end of the process changes nothing, unless onExit is release: the next start goes on where
// this one ended, and Release gives everything back.
package silencer
