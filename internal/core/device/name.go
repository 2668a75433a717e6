package device

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of a qualified name. A domain must leave room for the prefix that quotas add to it.
const (
	maxName    = 63
	maxDomain  = 253 - len(quotaPrefix)
	maxLabel   = 63
	ownDomain  = "kubernetes.io"
	wantedForm = "expected the name of an extended resource, such as example.com/gpu"
)

const quotaPrefix = "requests."

// CheckName checks the name of a device resource. It must be the name of an extended resource: a
// DNS domain that does not end in kubernetes.io, a slash, and a name of letters, digits, '-', '_'
// and '.' that begins and ends with a letter or digit.
func CheckName(resource string) error {
	domain, name, found := strings.Cut(resource, "/")
	switch {
	case !found:
		return errors.New("it has no domain: " + wantedForm)
	case strings.HasSuffix(domain, ownDomain):
		return fmt.Errorf("the domain %s ends in %s, which Kubernetes keeps for itself: %s", domain, ownDomain, wantedForm)
	case strings.HasPrefix(resource, quotaPrefix):
		return fmt.Errorf("%q is the prefix of quotas: %s", quotaPrefix, wantedForm)
	case len(domain) > maxDomain:
		return fmt.Errorf("its domain has %d characters, more than %d", len(domain), maxDomain)
	case len(name) > maxName:
		return fmt.Errorf("the name after the slash has %d characters, more than %d", len(name), maxName)
	case !isWord(name, func(c byte) bool { return isLowerOrDigit(c) || c >= 'A' && c <= 'Z' }, "-_."):
		return fmt.Errorf("%q is not a name of letters, digits, '-', '_' and '.': %s", name, wantedForm)
	}
	for label := range strings.SplitSeq(domain, ".") {
		if len(label) > maxLabel || !isWord(label, isLowerOrDigit, "-") {
			return fmt.Errorf("%q is no DNS domain in lower case: %s", domain, wantedForm)
		}
	}
	return nil
}

func isLowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isWord reports whether s is not empty, consists of letters and inner characters, and begins and
// ends with a letter.
func isWord(s string, letter func(byte) bool, inner string) bool {
	for i := range len(s) {
		if !letter(s[i]) && (i == 0 || i == len(s)-1 || strings.IndexByte(inner, s[i]) < 0) {
			return false
		}
	}
	return s != ""
}
