// Package seal signs the folder of a release, and verifies it.
//
// SHA256SUMS has the SHA-256 of every file. Beside it are, in the directory signatures:
//
//   - SHA256SUMS.sig and SHA256SUMS.sigstore.json, a signature of SHA256SUMS as cosign verify-blob
//     reads it: base64, and a Sigstore bundle
//     (https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto);
//   - IMAGE.payload.json and IMAGE.sig, a signature of each image as cosign attach signature puts it
//     beside an image in a registry
//     (https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md);
//   - provenance.dsse.json and provenance.sigstore.json, from what and how the files and the images
//     were built: an in-toto statement (https://in-toto.io/Statement/v1) with the predicate of SLSA
//     (https://slsa.dev/provenance/v1), in a signed envelope (DSSE) and in a bundle;
//   - cosign.pub, the public key. It proves nothing about who signed: compare it with one that you
//     have from elsewhere.
//
// All signatures are ECDSA with P-256 and SHA-256. Those of a key in a file are deterministic
// (RFC 6979), so that the same folder and the same key give the same bytes.
package seal
