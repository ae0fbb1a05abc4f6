package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// DefaultAddress is the HTTP port that is used without an address and a kubeconfig.
const DefaultAddress = "127.0.0.1:8080"

// DefaultNamespace is the namespace of a control plane unless Options say otherwise.
const DefaultNamespace = "istio-system"

// Options select a control plane and the way to it. The first that is set of Servers, XDSAddress
// and a kubeconfig is used; without any of them, DefaultAddress.
type Options struct {
	// Servers are HTTP ports, HOST:PORT. If there are several, each is asked for itself only.
	Servers []string
	// XDSAddress is an xDS port with TLS, HOST:PORT, to which TokenFile or a client certificate
	// (CertificateFile, KeyFile) identify the caller. RootsFile and Authority verify the server.
	// Without TokenFile and RootsFile, both are read from the cluster of the kubeconfig.
	XDSAddress, TokenFile, CertificateFile, KeyFile, RootsFile, Authority string
	// Kubeconfig is the path of a kubeconfig, and Context one of its contexts. If Kubeconfig is
	// empty, the existing files of KubeconfigPaths are used.
	Kubeconfig, Context string
	KubeconfigPaths     []string
	// Namespace is that of the control plane (default istio-system). Revision selects the pods of
	// one revision (default all).
	Namespace, Revision string
}

// UsesKubernetes reports whether the control plane is reached by port-forward: a kubeconfig exists,
// and neither Servers nor XDSAddress is set.
func (o Options) UsesKubernetes() bool {
	return len(o.Servers) == 0 && o.XDSAddress == "" && o.HasKubeconfig()
}

// HasKubeconfig reports whether Kubeconfig is set, even if the file does not exist, or whether one
// of KubeconfigPaths exists.
func (o Options) HasKubeconfig() bool {
	if o.Kubeconfig != "" {
		return true
	}
	for _, path := range o.KubeconfigPaths {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// RESTConfig returns the client configuration of the kubeconfig, or an error if there is none or it
// is invalid. It sends no request.
func (o Options) RESTConfig() (*rest.Config, error) {
	if !o.HasKubeconfig() {
		return nil, errors.New("no cluster is selected: set --kubeconfig or KUBECONFIG")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		o.loadingRules(), &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	kube.Options{UserAgent: "pilotctl"}.ApplyTo(config)
	return config, nil
}

// loadingRules returns the rules by which the kubeconfig is read. Kubeconfig is the only file if it
// is set, otherwise the files of KubeconfigPaths are merged.
func (o Options) loadingRules() *clientcmd.ClientConfigLoadingRules {
	return &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig, Precedence: o.KubeconfigPaths}
}

// Contexts returns the names of the contexts of the kubeconfig, sorted. It sends no request.
// Missing files of KubeconfigPaths are skipped; a missing Kubeconfig, and an invalid file, are
// errors.
func (o Options) Contexts() ([]string, error) {
	config, err := o.loadingRules().Load()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}

// Client returns the clients of the kubeconfig's cluster, or an error if there is no kubeconfig or
// it is invalid. It sends no request.
func (o Options) Client() (*kube.Client, error) {
	config, err := o.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kube.NewClient(config)
}

// namespace returns the namespace of the control plane, by default DefaultNamespace.
func (o Options) namespace() string { return cmp.Or(o.Namespace, DefaultNamespace) }

// KubeconfigPaths returns the kubeconfigs that kubectl uses: the list in variable, which is the
// value of KUBECONFIG, or else the one in the directory home. It returns nil if both are empty.
func KubeconfigPaths(variable, home string) []string {
	if variable != "" {
		return filepath.SplitList(variable)
	}
	if home == "" {
		return nil
	}
	return []string{filepath.Join(home, ".kube", "config")}
}

// quiet returns a context in which client-go logs nothing, because its errors are returned.
func quiet(ctx context.Context) context.Context {
	return kube.WithDebugLogging(ctx, slog.New(slog.DiscardHandler))
}
