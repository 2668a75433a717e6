package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs the certificates of a cluster and keeps them in its directory, as NAME.crt and
// NAME.key.
type Authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority creates a CA, "ca", and the key for the tokens of service accounts, "sa".
func NewAuthority(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, key: key}
	template := a.template(pkix.Name{CommonName: "kubernetes"})
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if a.cert, err = a.sign("ca", template, template, key); err != nil {
		return nil, err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(a.writeKey("sa", tokens), a.write("sa.pub", "PUBLIC KEY", public))
}

func (a *Authority) template(who pkix.Name) *x509.Certificate {
	a.serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: who, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// Client creates the certificate of a user with groups.
func (a *Authority) Client(name, user string, groups ...string) error {
	template := a.template(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(name, template)
}

// Server creates the certificate of a server with these addresses.
func (a *Authority) Server(name string, addresses ...string) error {
	template := a.template(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	return a.issue(name, template)
}

func (a *Authority) issue(name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	_, err = a.sign(name, template, a.cert, key)
	return err
}

func (a *Authority) sign(name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.write(name+".crt", "CERTIFICATE", der), a.writeKey(name, key)); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (a *Authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	return errors.Join(err, a.write(name+".key", "EC PRIVATE KEY", der))
}

func (a *Authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.File(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// File returns the path of a file of the authority.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Kubeconfig returns the configuration of the client name for an API server.
func (a *Authority) Kubeconfig(name, server string) ([]byte, error) {
	type object = map[string]any
	read := func(name string) []byte {
		data, err := os.ReadFile(a.File(name))
		if err != nil {
			panic(err) // This process wrote it.
		}
		return data
	}
	return json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
		"clusters": []object{{"name": "e2e", "cluster": object{"server": server, "certificate-authority-data": read("ca.crt")}}},
		"users":    []object{{"name": name, "user": object{"client-certificate-data": read(name + ".crt"), "client-key-data": read(name + ".key")}}},
		"contexts": []object{{"name": "e2e", "context": object{"cluster": "e2e", "user": name}}},
	})
}
