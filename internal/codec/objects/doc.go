// Package objects turns values of the core into the objects of the API, and back.
//
// Objects come from other programs, maybe a version apart. Nothing that is read is trusted: digests
// are checked, and what this version does not know is an error that names the object and the field.
package objects
