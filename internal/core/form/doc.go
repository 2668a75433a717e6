// Package form writes values as JSON objects and reads them back, by one table of fields for both
// directions. A new field is one line of a table.
//
// An Object is a table of the members of a JSON object, in their order. Each member has its name
// and the field of the Go value that it shows. The functions that make a Field define how one kind
// of value is written: what is omitted, what cannot be written, and what an unreadable value means.
// The same value always has the same bytes. A member that is empty, zero or false is omitted,
// unless the field is made with Always.
//
// # Errors
//
// Append fails for a value that could not be read back, such as a name that is not UTF-8, a
// negative amount, or a list that is not in its order. Read fails with ErrUnknown for a member, or
// a name of a value, that is not in a table, because a newer program wrote it. For anything else,
// Read fails with another error. Read accepts more than Append writes, such as other spellings of a
// string or a list in another order. A caller that accepts only the written bytes appends the value
// again and compares. Neither function panics, whatever the bytes are.
//
// # Users
//
// A grant has the following textual forms. Each has a different reader, so none of them can replace
// another.
//
//   - codec/statefile: the whole grant with its request, in the state file and, on one line, in a
//     PaddockNode. These two are the same bytes.
//   - codec/handover: the places of a grant, without the request, in an annotation. It is short, and
//     the node combines it with the request that it has read itself.
//   - PodResources (node/podres): the protocol of the kubelet, which is fixed.
//   - documents for people and their scripts (ui/view, cli/stateview): nothing reads them back.
//
// The first two are tables of this package. The journal (codec/journal) has no grants.
package form
