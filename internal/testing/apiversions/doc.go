// Package apiversions checks the promises about the versions of Paddock's objects.
//
// A released version only grows. Broken compares the Go API of a version with a recorded one, and
// Narrowed compares its CustomResourceDefinition. New declarations, new optional fields and new
// columns are allowed, because a reader that does not know them is still right.
//
// # A second version
//
// When a second version follows, both are served for one minor, and an object is the same in both.
// All versions of a definition have one schema (Differing), so that the API server can convert with
// the strategy None: it replaces apiVersion and leaves everything else. There is no webhook: while
// its server is away, agents could not publish and schedulers could not read, and it would need a
// certificate.
//
// One schema is enough, because no user writes these objects. Agents write them again at every
// start. A field with another name or form is therefore published beside the old one for as long as
// both versions are served, and disappears with the old version.
//
// Next makes the definition with the second version, and Served makes the object that an API server
// serves. Until the second version exists, the Go types of the first one represent it: with one
// schema, the types would differ only in the name of their package.
package apiversions
