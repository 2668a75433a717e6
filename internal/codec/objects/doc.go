// Package objects converts values of the core into API objects and back.
//
// Objects come from other programs, which may have another version. So nothing that is read is
// trusted: digests are verified, and content that this version does not know is an error that names
// the object and the field.
package objects
