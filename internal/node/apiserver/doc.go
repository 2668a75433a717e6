// Package apiserver describes how the agent reaches the API server of its cluster: the address, the
// credentials and the limits.
//
// The agent also works without an API server. The packages that read from it keep what they have
// read, and no answer to the runtime waits for it.
//
// The size of an answer is limited in bytes, so that no server can use up the memory of the agent.
// A watch is one answer. If a watch reaches the limit, it ends, and client-go begins the next one
// where it ended.
package apiserver
