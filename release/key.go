package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/paddock-project/paddock/release/seal"
)

// makeKey makes a key to sign with.
func makeKey(_ context.Context, o options, stdout io.Writer) error {
	name, err := o.keyName()
	if err != nil {
		return err
	}
	key, err := seal.NewKey(name)
	if err != nil {
		return err
	}
	public, err := os.ReadFile(seal.PublicName(name))
	if err != nil {
		return err
	}
	fingerprint, err := seal.Fingerprint(key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: a private key, which only you can read. Keep a copy of it in a safe place, and never in a repository.\n%s: its public key, which users need to verify releases. Its fingerprint is\n%s\n\n%s",
		name, seal.PublicName(name), fingerprint, public)
	return err
}

// keyName returns the file of the private key.
func (o options) keyName() (string, error) {
	if o.key != "" {
		return o.key, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("name the file of the key with KEY=FILE: %w", err)
	}
	return filepath.Join(dir, "paddock-release", "key.pem"), nil
}
