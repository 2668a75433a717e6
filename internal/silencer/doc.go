// Package silencer is the process of paddock quiet: it keeps the exclusive CPUs of a node quiet.
//
// Package internal/node/quiet decides, and internal/node/kernelsettings reads and writes the files.
// This package tracks which container has which CPUs, saves the earlier content of files, and runs
// one round after another:
//
//	follow.Containers ──► quiet.New ──► save ──► write and read again ──► quiet.Plan.After ──► save
//
// Nothing is written before it is saved. If a round cannot be saved, it writes nothing. If a source
// of containers does not answer, its containers count as before, so a restart of the agent or of
// the kubelet gives no CPU back.
//
// The end of the process changes nothing, unless onExit is release. The next start continues where
// this one ended, and Release restores everything.
package silencer
