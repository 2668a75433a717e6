package seal

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// module is the module path of the repository.
const module = "github.com/paddock-project/paddock"

// PublicName returns the name of the file with the public key beside a private one.
func PublicName(name string) string { return strings.TrimSuffix(name, ".pem") + ".pub" }

// NewKey makes a private key and writes it to a file that only this user can read, and the public key
// to one beside it: see PublicName. It does not replace a file.
func NewKey(name string) (*ecdsa.PublicKey, error) {
	for _, file := range []string{name, PublicName(name)} {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists: once a key is lost, nothing more can be signed with it: move the file away, or choose another one with KEY=FILE", file)
		}
	}
	if err := checkPlace(name); err != nil {
		return nil, err
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
	public, err := marshalPublic(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	return &key.PublicKey, os.WriteFile(PublicName(name), public, 0o644) //nolint:gosec // it is public
}

// checkPlace checks that a private key is not in a working tree of the repository, from where it can
// be committed.
func checkPlace(name string) error {
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return err
	}
	for { // A directory that is not there yet is where its parent is.
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(text) == module {
			return fmt.Errorf("the key %s is in the working tree %s, from where it can be committed: choose a file outside of it with KEY=FILE", name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// ReadKey reads a private key. One that others can read, or that can be committed, is an error.
func ReadKey(name string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key %s: make one with make release-key, or name another file with KEY=FILE", name)
	}
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(name); err != nil {
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

// checkPrivate checks that only this user can read a file.
func checkPrivate(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the key %s has mode %04o, so others can use it: make a new one if somebody may have read it, and otherwise chmod 600 %s", name, mode, name)
	}
	return checkPlace(name)
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

// fingerprint returns the SHA-256 of the DER form of a key.
func fingerprint(key *ecdsa.PublicKey) ([sha256.Size]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	return sha256.Sum256(der), err
}

// Fingerprint returns the fingerprint of a key in hexadecimal, as sha256sum prints it.
func Fingerprint(key *ecdsa.PublicKey) (string, error) {
	sum, err := fingerprint(key)
	return hex.EncodeToString(sum[:]), err
}

// hint returns the name of a key in a bundle: its fingerprint as base64.
func hint(key *ecdsa.PublicKey) (string, error) {
	sum, err := fingerprint(key)
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
