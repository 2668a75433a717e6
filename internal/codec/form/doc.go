// Package form writes values as JSON objects and reads them back, by one table of fields for both
// directions. A new field is one line of a table.
//
// An Object is a table: the members of a JSON object in their order, each with its name and with
// the field of the Go value that it shows. The functions that make a Field know how one kind of
// value is written: what is omitted, what cannot be written, and what a value that cannot be read
// means. The same value always has the same bytes. A member that is empty, zero or false is
// omitted, unless the field is made with Always.
//
// # Errors
//
// Append fails for a value that could not be read back, such as a name that is not UTF-8, a
// negative amount, or a list that is not in its order. Read fails with ErrUnknown for a member or a
// name of a value that is not in a table, which a newer program wrote, and with another error for
// anything else. Read accepts more than Append writes, such as other spellings of a string or a
// list in another order: a caller that wants exactly the written bytes appends the value again and
// compares. Neither panics, whatever the bytes are.
//
// # Users
//
// A grant has these textual forms. Each has another reader, so that none of them can be another.
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
