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
package form
