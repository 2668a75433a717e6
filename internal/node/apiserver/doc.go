// Package apiserver is how the agent reaches the API server of its cluster: where it is, with which
// credentials, and within which limits.
//
// The agent works without it. What is read there is kept by the packages that read it, and no
// answer to the runtime waits for it.
//
// An answer is limited in bytes, so that no server takes the memory of the agent. A watch is one
// answer. If it reaches the limit, it ends, and client-go begins the next one where it ended.
package apiserver
