package chart

// The module can build the program Helm, which test/e2e runs: both use the packages that are
// compiled for one of them.
import _ "helm.sh/helm/v4/pkg/cmd" // so that go.mod has what it needs
