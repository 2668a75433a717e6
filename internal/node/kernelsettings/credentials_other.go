//go:build !linux

package kernelsettings

// credentials returns nil: irqbalance runs on Linux alone. The client compiles for macOS, too.
func credentials() []byte { return nil }
