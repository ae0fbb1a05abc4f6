package controlplane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

// Target is a server of the control plane, at one or several addresses.
type Target struct {
	// Addresses are host:port each, in the order in which they are tried.
	Addresses []string
	// Plaintext is without TLS, and without the token.
	Plaintext bool
	// ServerName replaces the host of the address as the name in the server's certificate; "" does not.
	ServerName string
	// Roots is the file of authorities that the server is checked against; "": those of the system.
	Roots string
	// Certificate and Key are files with what the agent shows; "": nothing.
	Certificate, Key string
	// Token is the file of the token that goes with each call; "": none.
	Token string
	// Metadata goes with each call.
	Metadata map[string]string
	// Mark is the SO_MARK of connections, 0 for none.
	Mark uint32
}

// The control plane's ports that everybody knows to be without TLS, and with it.
const (
	plaintextPort = "15010"
	securePort    = "15012"
)

// Files of an identity to begin with, in the directory PROV_CERT.
const (
	provisionedKey   = "key.pem"
	provisionedChain = "cert-chain.pem"
	provisionedRoots = "root-cert.pem"
)

// mountedRoots is where Istio looks for roots before anything else: the file of pods that get their certificates mounted.
const mountedRoots = "./etc/certs/root-cert.pem"

// Discovery gives the server of configuration: ProxyConfig.discoveryAddress, which may have several addresses, separated by
// commas.
func Discovery(config *meshconfig.ProxyConfig, env environment.Environment, cluster string) (Target, error) {
	s := env.Security
	list, err := discoveryAddresses(config, env)
	if err != nil {
		return Target{}, err
	}
	t := Target{
		Addresses: list, ServerName: s.ServerName,
		Metadata:  withCluster(s.XDSHeaders, cluster),
		Mark:      env.SocketMark,
		Plaintext: config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE,
	}
	if t.Plaintext {
		for _, a := range list {
			if _, port, _ := net.SplitHostPort(a); port == securePort {
				return Target{}, fmt.Errorf("control plane %s: the port is for TLS, and ProxyConfig.controlPlaneAuthPolicy is NONE", a)
			}
		}
		return t, nil
	}
	if t.Roots, err = roots(s.XDSRoots, s); err != nil {
		return Target{}, fmt.Errorf("control plane %s: %w", config.GetDiscoveryAddress(), err)
	}
	t.Certificate, t.Key = own(s)
	t.Token = s.Token
	return t, nil
}

// Authority gives the server that signs certificates, and whether there is one: CA_ADDR or, if that is not set, the control
// plane, as long as it is reached by TLS.
func Authority(config *meshconfig.ProxyConfig, env environment.Environment, cluster string) (Target, bool, error) {
	s := env.Security
	t := Target{Addresses: addresses(s.CAAddress), Metadata: withCluster(s.CAHeaders, cluster), Mark: env.SocketMark}
	if len(t.Addresses) == 0 {
		if config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE {
			return Target{}, false, nil
		}
		var err error
		if t.Addresses, err = discoveryAddresses(config, env); err != nil {
			return Target{}, false, err
		}
		t.ServerName = s.ServerName
	}
	if _, port, _ := net.SplitHostPort(t.Addresses[0]); port == plaintextPort {
		t.Plaintext = true
		return t, true, nil
	}
	var err error
	if t.Roots, err = roots(s.CARoots, s); err != nil {
		return Target{}, false, fmt.Errorf("certificate authority %s: %w", strings.Join(t.Addresses, ","), err)
	}
	t.Certificate, t.Key = own(s)
	if s.TokenForCSR {
		t.Token = s.Token
	}
	return t, true, nil
}

// discoveryAddresses are those of ProxyConfig, in which $(HOST_IP) stands for the node's.
func discoveryAddresses(config *meshconfig.ProxyConfig, env environment.Environment) ([]string, error) {
	list, err := bootstrap.WithHostIP(config.GetDiscoveryAddress(), env.HostIP)
	if err != nil {
		return nil, fmt.Errorf("proxy configuration field %q: %w", "discoveryAddress", err)
	}
	return addresses(list), nil
}

func addresses(list string) []string {
	var all []string
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			all = append(all, a)
		}
	}
	return all
}

// own are the files of the certificate that the agent shows: what it was provisioned with, or what is mounted.
func own(s environment.Security) (certificate, key string) {
	switch {
	case s.Provisioned != "":
		return filepath.Join(s.Provisioned, provisionedChain), filepath.Join(s.Provisioned, provisionedKey)
	case s.FileMounted:
		return s.ClientFiles.Chain, s.ClientFiles.Key
	default:
		return "", ""
	}
}

// roots is the file of authorities that a server of the control plane is checked against, by Istio's order.
func roots(explicit string, s environment.Security) (string, error) {
	var path string
	switch {
	case explicit == environment.SystemRoots:
		return "", nil
	case explicit != "":
		path = explicit
	case exists(mountedRoots):
		return mountedRoots, nil
	case s.Provisioned != "" && (exists(filepath.Join(s.Provisioned, provisionedRoots)) || !exists(s.MeshRoots)):
		return filepath.Join(s.Provisioned, provisionedRoots), nil // it may be put there later
	case s.FileMounted && s.ClientFiles.Roots != "":
		path = s.ClientFiles.Roots
	case s.CertProvider == "none":
		return "", errors.New("its roots are not known: PILOT_CERT_PROVIDER is none, and neither XDS_ROOT_CA nor CA_ROOT_CA is set")
	default:
		path = s.MeshRoots
	}
	if !exists(path) {
		return "", fmt.Errorf("the file of its roots is missing: %s (mounted from the ConfigMap istio-ca-root-cert; or set XDS_ROOT_CA and CA_ROOT_CA)", path)
	}
	return path, nil
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// withCluster adds the metadata by which a control plane tells clusters apart.
func withCluster(headers map[string]string, cluster string) map[string]string {
	all := make(map[string]string, len(headers)+1)
	for name, value := range headers {
		all[strings.ToLower(name)] = value
	}
	if cluster != "" {
		all["clusterid"] = cluster
	}
	return all
}
