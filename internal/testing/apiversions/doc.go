// Package apiversions checks what the versions of Paddock's objects promise.
//
// A released version only grows: Broken compares the Go API of a version with a recorded one, and
// Narrowed its CustomResourceDefinition. New declarations, new optional fields and new columns are
// allowed, because a reader that does not know them is still right.
//
// # A second version
//
// When a version follows, both are served for one minor, and an object is the same in both. All
// versions of a definition have one schema (Differing), so that the API server converts with the
// strategy None: it replaces apiVersion, and leaves everything else. There is no webhook. One that
// is away would stop agents from publishing and schedulers from reading, and it would need a
// certificate.
//
// One schema is enough, because no user writes these objects. Agents write them again at every
// start, so a field with another name or form is published beside the old one for as long as both
// versions are served, and then goes with the old version.
//
// Next makes the definition with the second version, and Served is what an API server gives of an
// object. Until the second version exists, the Go types of the first one stand for it: with one
// schema, they would differ in nothing but the name of their package.
package apiversions
