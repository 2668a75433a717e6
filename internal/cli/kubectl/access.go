package kubectl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // kubectl logs in with it
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paddock-project/paddock/internal/base/build"
)

// Access describes the cluster and the user, by kubectl's files and flags.
type Access struct {
	file      string
	overrides clientcmd.ConfigOverrides
}

// Register adds kubectl's flags under kubectl's names.
func (a *Access) Register(flags *pflag.FlagSet) {
	flags.StringVar(&a.file, clientcmd.RecommendedConfigPathFlag, "", "the kubeconfig `FILE` to use for CLI requests")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s" // as in kubectl
	clientcmd.BindOverrideFlags(&a.overrides, flags, names)
}

// RegisterContext adds only the flags that choose a file and a context in it.
func (a *Access) RegisterContext(flags *pflag.FlagSet) {
	flags.StringVar(&a.file, clientcmd.RecommendedConfigPathFlag, "", "the kubeconfig `FILE` to use")
	flags.StringVar(&a.overrides.CurrentContext, clientcmd.FlagContext, "", "the `CONTEXT` of the kubeconfig to use")
}

// defaultPatience is how long an agent may take to answer without --request-timeout. The largest
// explanations take a second, and the absence of a kubelet is noticed within half a minute.
const defaultPatience = time.Minute

// Cluster is a cluster whose agents can be asked.
type Cluster struct {
	// Namespace is the default namespace of pods.
	Namespace string

	context  string
	patience time.Duration // for one answer
	config   *rest.Config
	core     *rest.RESTClient
}

// File returns the kubeconfig file and the context that were chosen by flags. They are empty if
// none was.
func (a *Access) File() (file, context string) { return a.file, a.overrides.CurrentContext }

// Config returns how to reach the API server. Without files, in a pod, it uses the pod's service
// account. It sends no request.
func (a *Access) Config() (*rest.Config, error) {
	config, _, err := a.load()
	if err == nil {
		config.UserAgent = build.UserAgent("paddock-fleet")
	}
	return config, err
}

// Name returns the name of the cluster for people: the context, or "this cluster" without files.
func (a *Access) Name() string {
	_, loader, err := a.load()
	if err != nil {
		return "this cluster"
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return "this cluster"
	}
	return cmp.Or(a.overrides.CurrentContext, raw.CurrentContext, "this cluster")
}

// load reads the files that kubectl reads.
func (a *Access) load() (*rest.Config, clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &a.overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, errors.New("no cluster is configured: expected --kubeconfig FILE, the variable KUBECONFIG, or ~/.kube/config, as kubectl has it")
	}
	raw, rawErr := loader.RawConfig()
	if err != nil && rawErr == nil && len(raw.Contexts) > 0 {
		return nil, nil, fmt.Errorf("kubeconfig: %w; its contexts are %s", err, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, loader, nil
}

// Cluster reads the files that kubectl reads. It sends no request.
func (a *Access) Cluster() (*Cluster, error) {
	config, loader, err := a.load()
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, patience: cmp.Or(config.Timeout, defaultPatience)}
	if c.Namespace, _, err = loader.Namespace(); err != nil {
		return nil, err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.context = cmp.Or(a.overrides.CurrentContext, raw.CurrentContext)
	config.UserAgent = build.UserAgent("kubectl-paddock")
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	core := rest.CopyConfig(config)
	core.APIPath, core.GroupVersion = "/api", &v1.SchemeGroupVersion
	core.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.core, err = rest.RESTClientFor(core)
	return c, err
}
