// Package objects converts values of the core into API objects and back.
//
// Objects come from other programs, which may have another version. The package therefore trusts
// nothing that it reads: it verifies digests, and content that this version does not know is an
// error that names the object and the field.
package objects
