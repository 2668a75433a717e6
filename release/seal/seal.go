package seal

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	bundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
)

// bundleType is the media type of a bundle.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Digest returns the digest of the image in an OCI archive, such as sha256:0123…. It is that of the
// index, which covers all platforms.
func Digest(archive io.Reader) (string, error) {
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return "", errors.New("the archive has no index.json: expected an OCI archive")
		}
		if err != nil {
			return "", err
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct{ Manifests []struct{ Digest string } }
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			return "", fmt.Errorf("index.json: %w", err)
		}
		if len(index.Manifests) != 1 {
			return "", fmt.Errorf("index.json has %d manifests, expected 1", len(index.Manifests))
		}
		return index.Manifests[0].Digest, nil
	}
}

func hexOf(digest string) (string, error) {
	digits, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != 32 {
		return "", fmt.Errorf("digest %q: expected sha256: and 64 digits", digest)
	}
	return digits, nil
}

// WriteSums writes SHA256SUMS.
func WriteSums(dir string) error {
	f, err := Open(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, SumsName), f.sumsText(), 0o644)
}

// Seal signs a folder that has SHA256SUMS.
func Seal(ctx context.Context, dir string, key *ecdsa.PrivateKey, b Build) error {
	f, err := Open(dir)
	if err != nil {
		return err
	}
	files, err := f.sealed(ctx, key, b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, signatures), 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sealed returns the files in the directory signatures.
func (f *Folder) sealed(ctx context.Context, key *ecdsa.PrivateKey, b Build) (map[string][]byte, error) {
	files := map[string][]byte{}
	public, err := marshalPublic(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	files[signatures+"/cosign.pub"] = public
	sums, err := f.Read(SumsName)
	if err != nil {
		return nil, err
	}
	signature, err := sign(key, sums)
	if err != nil {
		return nil, err
	}
	files[signatures+"/SHA256SUMS.sig"] = base64Text(signature)
	if files[signatures+"/SHA256SUMS.sigstore.json"], err = blobBundle(&key.PublicKey, f.sums[SumsName], signature); err != nil {
		return nil, err
	}
	for name, digest := range b.Images {
		payload, err := imagePayload(name, digest)
		if err != nil {
			return nil, err
		}
		signature, err := sign(key, payload)
		if err != nil {
			return nil, err
		}
		files[payloadName(name)] = payload
		files[signatureName(name)] = base64Text(signature)
	}
	statement, err := f.statement(b)
	if err != nil {
		return nil, err
	}
	e, err := envelope(ctx, key, statement)
	if err != nil {
		return nil, err
	}
	if files[envelopeName], err = json.Marshal(e); err != nil {
		return nil, err
	}
	files[statementBundleName], err = envelopeBundle(&key.PublicKey, e)
	return files, err
}

const (
	envelopeName        = signatures + "/provenance.dsse.json"
	statementBundleName = signatures + "/provenance.sigstore.json"
)

func payloadName(image string) string   { return signatures + "/" + lastOf(image) + ".payload.json" }
func signatureName(image string) string { return signatures + "/" + lastOf(image) + ".sig" }
func lastOf(image string) string        { return image[strings.LastIndex(image, "/")+1:] }

func base64Text(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data) + "\n") }

// imagePayload returns what is signed of an image: the "simple signing" of containers/image.
func imagePayload(name, digest string) ([]byte, error) {
	type identity struct {
		Reference string `json:"docker-reference"`
	}
	type image struct {
		Digest string `json:"docker-manifest-digest"`
	}
	type critical struct {
		Identity identity `json:"identity"`
		Image    image    `json:"image"`
		Type     string   `json:"type"`
	}
	return json.Marshal(struct {
		Critical critical       `json:"critical"`
		Optional map[string]any `json:"optional"`
	}{critical{identity{name}, image{digest}, "cosign container image signature"}, nil})
}

func material(key *ecdsa.PublicKey) (*bundle.VerificationMaterial, error) {
	h, err := hint(key)
	return &bundle.VerificationMaterial{Content: &bundle.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{Hint: h}}}, err
}

// blobBundle returns the bundle of a signature of a file.
func blobBundle(key *ecdsa.PublicKey, sum string, signature []byte) ([]byte, error) {
	m, err := material(key)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(sum)
	if err != nil {
		return nil, err
	}
	return marshal(&bundle.Bundle{
		MediaType: bundleType, VerificationMaterial: m,
		Content: &bundle.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
			MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: raw}, Signature: signature,
		}},
	})
}

// envelopeBundle returns the bundle of an envelope.
func envelopeBundle(key *ecdsa.PublicKey, e *dsse.Envelope) ([]byte, error) {
	m, err := material(key)
	if err != nil {
		return nil, err
	}
	payload, err := e.DecodeB64Payload()
	if err != nil {
		return nil, err
	}
	if len(e.Signatures) != 1 {
		return nil, fmt.Errorf("the envelope has %d signatures, expected 1", len(e.Signatures))
	}
	signature, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		return nil, err
	}
	return marshal(&bundle.Bundle{
		MediaType: bundleType, VerificationMaterial: m,
		Content: &bundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: payload, PayloadType: e.PayloadType, Signatures: []*protodsse.Signature{{Sig: signature, Keyid: e.Signatures[0].KeyID}},
		}},
	})
}

// Verify checks the checksums and every signature of a folder against a public key, and that the
// provenance is of exactly these files and images. images are the digests of the images in the
// folder by their names. Errors name the file.
func (f *Folder) Verify(ctx context.Context, key *ecdsa.PublicKey, images map[string]string) (Build, error) {
	b, err := f.verifyProvenance(ctx, key, images)
	return b, errors.Join(f.CheckSums(), f.Trust(key), f.verifyImages(key, images), err)
}

// Trust checks that a key signed SHA256SUMS, and so every file that has the checksum there.
func (f *Folder) Trust(key *ecdsa.PublicKey) error {
	return errors.Join(f.verifyKey(key), f.verifySums(key))
}

// PublicKey returns the public key in the folder.
func (f *Folder) PublicKey() (*ecdsa.PublicKey, error) {
	name := signatures + "/cosign.pub"
	text, err := f.Read(name)
	if err != nil {
		return nil, fmt.Errorf("the folder is not signed: %w", err)
	}
	return ParsePublic(name, text)
}

func (f *Folder) verifyKey(key *ecdsa.PublicKey) error {
	want, err := marshalPublic(key)
	if err != nil {
		return err
	}
	return f.same(signatures+"/cosign.pub", want, "the public key that you trust")
}

func (f *Folder) verifySums(key *ecdsa.PublicKey) error {
	sums, err := f.Read(SumsName)
	if err != nil {
		return err
	}
	signature, err := f.verifyText(key, signatures+"/SHA256SUMS.sig", sums)
	if err != nil {
		return err
	}
	want, err := blobBundle(key, f.sums[SumsName], signature)
	if err != nil {
		return err
	}
	return f.same(signatures+"/SHA256SUMS.sigstore.json", want, "the bundle of SHA256SUMS.sig")
}

// verifyText verifies a signature in a file of its own, and returns it.
func (f *Folder) verifyText(key *ecdsa.PublicKey, name string, data []byte) ([]byte, error) {
	text, err := f.Read(name)
	if err != nil {
		return nil, err
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(string(text), "\n"))
	if err == nil {
		err = verify(key, data, signature)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return signature, nil
}

func (f *Folder) same(name string, want []byte, what string) error {
	got, err := f.Read(name)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%s is not %s", name, what)
	}
	return err
}

func (f *Folder) verifyImages(key *ecdsa.PublicKey, images map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		want, err := imagePayload(name, images[name])
		if err != nil {
			return err
		}
		if err := f.same(payloadName(name), want, "the payload of the image "+name+"@"+images[name]); err != nil {
			return err
		}
		if _, err := f.verifyText(key, signatureName(name), want); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) verifyProvenance(ctx context.Context, key *ecdsa.PublicKey, images map[string]string) (Build, error) {
	data, err := f.Read(envelopeName)
	if err != nil {
		return Build{}, err
	}
	var e dsse.Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Build{}, fmt.Errorf("%s: %w", envelopeName, err)
	}
	payload, err := open(ctx, key, &e)
	if err != nil {
		return Build{}, fmt.Errorf("%s: %w", envelopeName, err)
	}
	b, err := buildOf(payload)
	if err != nil {
		return b, fmt.Errorf("%s: %w", envelopeName, err)
	}
	b.Images = images
	want, err := f.statement(b)
	if err != nil {
		return b, fmt.Errorf("%s: %w", envelopeName, err)
	}
	if !bytes.Equal(payload, want) {
		return b, fmt.Errorf("%s is not about the files and images of this folder", envelopeName)
	}
	canonical, err := onlyForm(key, &e, payload)
	if err != nil {
		return b, fmt.Errorf("%s: %w", envelopeName, err)
	}
	if !bytes.Equal(canonical, data) {
		return b, fmt.Errorf("%s has more than the envelope, or another form of it", envelopeName)
	}
	bundled, err := envelopeBundle(key, &e)
	if err != nil {
		return b, err
	}
	return b, f.same(statementBundleName, bundled, "the bundle of provenance.dsse.json")
}
