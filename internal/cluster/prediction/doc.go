// Package prediction serves the questions of predict.proto over states of nodes: whether a node
// would take a pod, and with which CPUs. It reserves nothing and changes nothing.
//
// # The copy
//
// Answers come from a copy of the nodes, which the server takes from its Source when a question
// arrives and the copy is older than 50 ms. Each answer has the version of its node in the copy,
// and the age: how long the copy may have been out of date. The age is at most 50 ms while the
// source has contact with the cluster, and grows while it has none. It is 0 for nodes that never
// change. Beyond MaxAge, answers still come from the copy, with the certainty UNKNOWN.
//
// # Limits
//
//	message            4 MiB each way; a call with larger answers gets INVALID_ARGUMENT
//	questions          10,000 of one call, pods times nodes
//	calls at a time    64, without watches; another call gets RESOURCE_EXHAUSTED at once
//	watches            64
//	connections        256; another one is closed at once
//	streams            128 on a connection
//	handshake          10 s
//	one call           ends with the context of its client, between two questions
//
// When the context of Serve ends, calls that have begun are answered for at most 5 s. Watches end
// at once.
package prediction
