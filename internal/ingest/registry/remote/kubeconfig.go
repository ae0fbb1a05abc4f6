package remote

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// maxKubeconfig limits the size of a kubeconfig in bytes. A Secret can contain a megabyte.
const maxKubeconfig = 128 << 10

// newClient returns a client for the kubeconfig in a Secret, or an error if it is refused
// (parseKubeconfig) or unusable. Users with write access to such Secrets must not be able to
// execute programs here or to read local files. Fields that do so are refused unless allowed
// (Options.AllowedInsecureFields) contains them.
func newClient(text []byte, allowed []string) (*kube.Client, error) {
	config, err := parseKubeconfig(text, allowed)
	if err != nil {
		return nil, err
	}
	(kube.Options{UserAgent: "pilot-discovery"}).ApplyTo(config)
	return kube.NewClient(config)
}

// parseKubeconfig returns the configuration of a kubeconfig's current context. It refuses empty,
// too large and invalid ones, and fields that read files or run programs unless allowed contains
// them. Its errors quote no secrets.
func parseKubeconfig(text []byte, allowed []string) (*rest.Config, error) {
	switch {
	case len(text) == 0:
		return nil, errors.New("the kubeconfig is empty")
	case len(text) > maxKubeconfig:
		return nil, fmt.Errorf("the kubeconfig has %d bytes; %d are enough for any", len(text), maxKubeconfig)
	}
	raw, err := clientcmd.Load(text)
	if err != nil {
		// the parser's error may quote secrets
		return nil, errors.New("the kubeconfig cannot be read")
	}
	for _, name := range sortedKeys(raw.AuthInfos) {
		if field := unsafeUser(raw.AuthInfos[name], allowed); field != "" {
			return nil, fmt.Errorf("the kubeconfig has %s for the user %q, which is not allowed in Secrets",
				field, name)
		}
	}
	for _, name := range sortedKeys(raw.Clusters) {
		if c := raw.Clusters[name]; c.CertificateAuthority != "" && !slices.Contains(allowed, "certificateAuthority") {
			return nil, fmt.Errorf(
				"the kubeconfig has certificate-authority (a file) for the cluster %q, which is not allowed in Secrets",
				name)
		}
	}
	if err := clientcmd.Validate(*raw); err != nil {
		return nil, fmt.Errorf("the kubeconfig is not valid: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig has no usable cluster: %w", err)
	}
	return config, nil
}

// unsafeUser returns the name of the first field of a user that executes a program or reads a file
// and is not allowed, or "" if there is none.
func unsafeUser(u *api.AuthInfo, allowed []string) string {
	for _, x := range []struct {
		used          bool
		field, permit string
	}{
		{u.Exec != nil, "exec", "exec"},
		{u.AuthProvider != nil, "auth-provider", providerName(u)},
		{u.ClientCertificate != "", "client-certificate (a file)", "clientCertificate"},
		{u.ClientKey != "", "client-key (a file)", "clientKey"},
		{u.TokenFile != "", "tokenFile", "tokenFile"},
	} {
		if x.used && (x.permit == "" || !slices.Contains(allowed, x.permit)) {
			return x.field
		}
	}
	return ""
}

// providerName returns the name of the deprecated auth provider of a user, or "" without one.
func providerName(u *api.AuthInfo) string {
	if u.AuthProvider == nil {
		return ""
	}
	return u.AuthProvider.Name
}

// sortedKeys returns the keys of m in ascending order, never nil.
func sortedKeys[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
