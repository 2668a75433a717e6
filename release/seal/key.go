package seal

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewKey makes a private key and writes it to a file that only this user can read. It does not
// replace a file. It returns the public key as PEM.
func NewKey(name string) ([]byte, error) {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s exists: a lost key cannot verify what it signed: move the file away, or choose another one", name)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	return marshalPublic(&key.PublicKey)
}

// ReadKey reads a private key.
func ReadKey(name string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key %s: make one with make release-key, or name another file with KEY=FILE", name)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s is not a private key: expected a PEM file with PRIVATE KEY, as make release-key makes it", name)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s has a key of another kind: expected ECDSA with P-256", name)
	}
	return key, nil
}

// ParsePublic parses a public key as cosign writes it. name is for errors.
func ParsePublic(name string, text []byte) (*ecdsa.PublicKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return nil, fmt.Errorf("%s is not a public key: expected a PEM file with PUBLIC KEY", name)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s has a key of another kind: expected ECDSA with P-256", name)
	}
	return key, nil
}

func marshalPublic(key *ecdsa.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}

// hint returns the name of a key in a bundle: the SHA-256 of its DER form, as base64.
func hint(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:]), err
}

// sign signs data. Without a source of random numbers, the signature is deterministic.
func sign(key *ecdsa.PrivateKey, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return key.Sign(nil, sum[:], crypto.SHA256)
}

var errSignature = errors.New("the signature is not by this key, or of other bytes")

func verify(key *ecdsa.PublicKey, data, signature []byte) error {
	sum := sha256.Sum256(data)
	if !ecdsa.VerifyASN1(key, sum[:], signature) {
		return errSignature
	}
	return nil
}
