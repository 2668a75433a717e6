package seal

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	payloadType   = "application/vnd.in-toto+json"
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType is the page that describes the parameters.
	buildType = "https://github.com/paddock-project/paddock/blob/main/docs/release.md#provenance"
)

// Build describes how a release was built. Times are left out: the same commit gives the same
// statement.
type Build struct {
	Version, Registry string
	// Commit is the git commit. GoVersion is the version of Go, such as go1.26.8.
	Commit, GoVersion string
	// Builder identifies who built it, as a URI.
	Builder string
	// Images are the digests of the images by their names, such as sha256:0123….
	Images map[string]string
}

// statement returns the in-toto statement about the files of a folder and the images.
func (f *Folder) statement(b Build) ([]byte, error) {
	var subjects []*intoto.ResourceDescriptor
	for _, name := range f.artefacts() {
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": f.sums[name]}})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Images)) {
		digest, err := hexOf(b.Images[name])
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": digest}})
	}
	external, err := structpb.NewStruct(map[string]any{"version": b.Version, "registry": b.Registry})
	if err != nil {
		return nil, err
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:          buildType,
			ExternalParameters: external,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+https://github.com/paddock-project/paddock@refs/tags/" + b.Version, Digest: map[string]string{"gitCommit": b.Commit}},
				{Uri: "pkg:golang/toolchain@" + b.GoVersion, Name: b.GoVersion},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: b.Builder}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	raw, err := marshal(predicate)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	body, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Subject: subjects, Predicate: body}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return marshal(s)
}

// marshal returns a message as JSON that is always the same: protojson adds spaces at random.
func marshal(m proto.Message) ([]byte, error) {
	loose, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, loose)
	return out.Bytes(), err
}

// buildOf reads how a release was built from its statement.
func buildOf(payload []byte) (b Build, err error) {
	var s intoto.Statement
	if err := protojson.Unmarshal(payload, &s); err != nil {
		return b, fmt.Errorf("the statement: %w", err)
	}
	raw, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		return b, err
	}
	var p provenance.Provenance
	if err := protojson.Unmarshal(raw, &p); err != nil {
		return b, fmt.Errorf("the predicate: %w", err)
	}
	parameters := p.GetBuildDefinition().GetExternalParameters().GetFields()
	b = Build{
		Version: parameters["version"].GetStringValue(), Registry: parameters["registry"].GetStringValue(),
		Builder: p.GetRunDetails().GetBuilder().GetId(), Images: map[string]string{},
	}
	if d := p.GetBuildDefinition().GetResolvedDependencies(); len(d) == 2 {
		b.Commit, b.GoVersion = d[0].GetDigest()["gitCommit"], d[1].GetName()
	}
	return b, nil
}

// keyed signs and verifies envelopes with a key (dsse.SignerVerifier).
type keyed struct {
	private *ecdsa.PrivateKey
	public  *ecdsa.PublicKey
}

func (k keyed) Sign(_ context.Context, data []byte) ([]byte, error) { return sign(k.private, data) }
func (k keyed) Verify(_ context.Context, data, signature []byte) error {
	return verify(k.public, data, signature)
}
func (k keyed) KeyID() (string, error) { return dsse.SHA256KeyID(k.public) }

// Public implements dsse.Verifier.
func (k keyed) Public() crypto.PublicKey { return k.public }

// envelope signs a statement.
func envelope(ctx context.Context, key *ecdsa.PrivateKey, payload []byte) (*dsse.Envelope, error) {
	signer, err := dsse.NewEnvelopeSigner(keyed{key, &key.PublicKey})
	if err != nil {
		return nil, err
	}
	return signer.SignPayload(ctx, payloadType, payload)
}

// onlyForm returns the bytes of an envelope as they are written. Other bytes can have the same meaning:
// base64 has unused bits at its end, and JSON can have more fields.
func onlyForm(key *ecdsa.PublicKey, e *dsse.Envelope, payload []byte) ([]byte, error) {
	if len(e.Signatures) != 1 {
		return nil, fmt.Errorf("the envelope has %d signatures, expected 1", len(e.Signatures))
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(e.Signatures[0].Sig)
	if err != nil {
		return nil, err
	}
	id, err := dsse.SHA256KeyID(key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&dsse.Envelope{
		PayloadType: payloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures:  []dsse.Signature{{KeyID: id, Sig: base64.StdEncoding.EncodeToString(signature)}},
	})
}

// open verifies an envelope and returns the statement.
func open(ctx context.Context, key *ecdsa.PublicKey, e *dsse.Envelope) ([]byte, error) {
	verifier, err := dsse.NewEnvelopeVerifier(keyed{public: key})
	if err != nil {
		return nil, err
	}
	if _, err := verifier.Verify(ctx, e); err != nil {
		return nil, errors.Join(errSignature, err)
	}
	if e.PayloadType != payloadType {
		return nil, fmt.Errorf("the payload has the type %q: expected %q", e.PayloadType, payloadType)
	}
	return e.DecodeB64Payload()
}
