package nomad

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// Settings are the user's settings of a Platform.
type Settings struct {
	// Addresses are URLs of agents, servers or clients, in the order in which they are tried:
	// "http://host:4646" (--nomadAddresses).
	Addresses []string
	// Namespaces are the namespaces of Nomad that are read (default "default"; --nomadNamespaces).
	// Each is the namespace of its services in the mesh.
	Namespaces []string
	// Region is Nomad's region (default: that of the agent; --nomadRegion).
	Region string
	// Domain is the last part of all hosts (default "nomad"; --nomadDomain).
	Domain string
	// TokenFile contains the secret ID of an ACL token. It is read again for each request
	// (--nomadTokenFile).
	TokenFile string
	// Files are the TLS settings (--nomadCAFile, --nomadCertFile, --nomadKeyFile,
	// --nomadServerName). The name in the agents' certificates is usually server.global.nomad.
	clienttls.Files
}

// DefaultSettings returns the settings that apply without flags.
func DefaultSettings() Settings {
	return Settings{Namespaces: []string{defaultNamespace}, Domain: "nomad"}
}

// flagPrefix is the prefix of the names of the flags.
const flagPrefix = "nomad"

// defaultNamespace is the namespace of Nomad that always exists.
const defaultNamespace = "default"

// Validate returns an error that names each invalid flag, or nil. It opens no connection.
// Credentials, paths and queries in addresses, no address or namespace, namespaces named twice, and
// the namespace "*" are refused.
func (s *Settings) Validate() error {
	var errs []error
	if len(s.Addresses) == 0 {
		errs = append(errs, errors.New("--nomadAddresses: must name an agent"))
	}
	for _, text := range s.Addresses {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			u.RawQuery != "" || u.Path != "" && u.Path != "/" {
			errs = append(errs, fmt.Errorf("--nomadAddresses %q: want http://host:port or https://host:port", text))
		}
	}
	if len(s.Namespaces) == 0 {
		errs = append(errs, errors.New("--nomadNamespaces: must name a namespace"))
	}
	for i, name := range s.Namespaces {
		switch {
		case name == "" || name == "*":
			errs = append(errs, fmt.Errorf("--nomadNamespaces %q: want names of namespaces", name))
		case slices.Contains(s.Namespaces[:i], name):
			errs = append(errs, fmt.Errorf("--nomadNamespaces %q: is named twice", name))
		}
	}
	return errors.Join(append(errs, s.Files.Validate(flagPrefix))...)
}
