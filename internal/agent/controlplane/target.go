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

// Target is a server of the control plane with one or several addresses.
type Target struct {
	// Addresses are host:port each, in the order in which they are tried.
	Addresses []string
	// Plaintext disables TLS, and with it the token.
	Plaintext bool
	// ServerName is the name that the server's certificate must have. If empty, it is the host of
	// the address.
	ServerName string
	// Roots is the file of the roots that must have signed the server's certificate. If empty, the
	// operating system's roots are used.
	Roots string
	// Certificate and Key are the files of the client certificate. If empty, none is presented.
	Certificate, Key string
	// Token is the file of the bearer token sent with each call. If empty, none is sent.
	Token string
	// Metadata is sent with each call.
	Metadata map[string]string
	// Mark is the SO_MARK of connections. If 0, none is set.
	Mark uint32
}

// Well-known ports of the control plane.
const (
	plaintextPort = "15010"
	securePort    = "15012"
)

// Names of the initial identity's files in the directory PROV_CERT.
const (
	provisionedKey   = "key.pem"
	provisionedChain = "cert-chain.pem"
	provisionedRoots = "root-cert.pem"
)

// mountedRoots is the first place where Istio looks for roots: the file of pods whose certificates
// are mounted.
const mountedRoots = "./etc/certs/root-cert.pem"

// DiscoveryTarget returns the xDS server: ProxyConfig.discoveryAddress, which may hold several
// addresses separated by commas. Plaintext (controlPlaneAuthPolicy NONE) has no roots, certificate
// or token, and is an error for port 15012. It also returns an error if the file of the roots is
// missing, or $(HOST_IP) is used but not known.
func DiscoveryTarget(
	config *meshconfig.ProxyConfig, env environment.Environment, cluster string,
) (Target, error) {
	s := env.Security
	list, err := discoveryAddresses(config, env)
	if err != nil {
		return Target{}, err
	}
	t := Target{
		Addresses: list, ServerName: s.ServerName,
		Metadata:  withClusterID(s.XDSHeaders, cluster),
		Mark:      env.SocketMark,
		Plaintext: config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE,
	}
	if t.Plaintext {
		for _, a := range list {
			if _, port, _ := net.SplitHostPort(a); port == securePort {
				return Target{}, fmt.Errorf(
					"control plane %s: the port requires TLS, but ProxyConfig.controlPlaneAuthPolicy is NONE", a)
			}
		}
		return t, nil
	}
	if t.Roots, err = rootsFile(s.XDSRoots, s); err != nil {
		return Target{}, fmt.Errorf("control plane %s: %w", config.GetDiscoveryAddress(), err)
	}
	t.Certificate, t.Key = clientCertificateFiles(s)
	t.Token = s.Token
	return t, nil
}

// AuthorityTarget returns the certificate authority's server: CA_ADDR if that is set, otherwise the
// control plane with its ServerName. It returns false, without an error, if CA_ADDR is not set and
// controlPlaneAuthPolicy is NONE. If the first address has port 15010, TLS, certificate and token
// are not used. The token is left out unless TokenForCSR is set, and missing roots are an error.
func AuthorityTarget(
	config *meshconfig.ProxyConfig, env environment.Environment, cluster string,
) (Target, bool, error) {
	s := env.Security
	t := Target{
		Addresses: splitAddresses(s.CAAddress), Metadata: withClusterID(s.CAHeaders, cluster), Mark: env.SocketMark,
	}
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
	if t.Roots, err = rootsFile(s.CARoots, s); err != nil {
		return Target{}, false, fmt.Errorf("certificate authority %s: %w", strings.Join(t.Addresses, ","), err)
	}
	t.Certificate, t.Key = clientCertificateFiles(s)
	if s.TokenForCSR {
		t.Token = s.Token
	}
	return t, true, nil
}

// discoveryAddresses returns the addresses of ProxyConfig.discoveryAddress with $(HOST_IP) replaced
// by the node's address. It returns an error if that is used but not known.
func discoveryAddresses(config *meshconfig.ProxyConfig, env environment.Environment) ([]string, error) {
	list, err := bootstrap.SubstituteHostIP(config.GetDiscoveryAddress(), env.HostIP)
	if err != nil {
		return nil, fmt.Errorf("proxy configuration field %q: %w", "discoveryAddress", err)
	}
	return splitAddresses(list), nil
}

// splitAddresses returns the non-empty entries of a comma-separated list, trimmed, or nil.
func splitAddresses(list string) []string {
	var all []string
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			all = append(all, a)
		}
	}
	return all
}

// clientCertificateFiles returns the files of the agent's client certificate: in the provisioned
// directory if that is set, else the mounted files if FileMounted is set, else "". The files need
// not exist.
func clientCertificateFiles(s environment.Security) (certificate, key string) {
	switch {
	case s.ProvisionedDir != "":
		return filepath.Join(s.ProvisionedDir, provisionedChain), filepath.Join(s.ProvisionedDir, provisionedKey)
	case s.FileMounted:
		return s.ClientFiles.Chain, s.ClientFiles.Key
	default:
		return "", ""
	}
}

// rootsFile returns the file of the roots that verify a server of the control plane. The order is
// explicit, mountedRoots if that exists, the provisioned roots if they exist or MeshRoots does not,
// the roots of FileMounted, MeshRoots. It returns "" for the operating system's roots, if explicit
// is SystemRoots. A missing file is an error unless it is provisioned, and so is a CertProvider
// "none" in place of MeshRoots.
func rootsFile(explicit string, s environment.Security) (string, error) {
	var path string
	switch {
	case explicit == environment.SystemRoots:
		return "", nil
	case explicit != "":
		path = explicit
	case isRegularFile(mountedRoots):
		return mountedRoots, nil
	case s.ProvisionedDir != "" &&
		(isRegularFile(filepath.Join(s.ProvisionedDir, provisionedRoots)) || !isRegularFile(s.MeshRoots)):
		return filepath.Join(s.ProvisionedDir, provisionedRoots), nil // the file may appear later
	case s.FileMounted && s.ClientFiles.Roots != "":
		path = s.ClientFiles.Roots
	case s.CertProvider == "none":
		return "", errors.New("no roots configured: " +
			"PILOT_CERT_PROVIDER is none, and neither XDS_ROOT_CA nor CA_ROOT_CA is set")
	default:
		path = s.MeshRoots
	}
	if !isRegularFile(path) {
		return "", fmt.Errorf(
			"roots file is missing: %s (mounted from the ConfigMap istio-ca-root-cert; "+
				"or set XDS_ROOT_CA and CA_ROOT_CA)", path)
	}
	return path, nil
}

// isRegularFile reports whether path is, or links to, a regular file that exists.
func isRegularFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// withClusterID returns a copy of headers with names in lower case. Unless cluster is empty, the
// header clusterid is set to it, by which a control plane identifies the agent's cluster.
func withClusterID(headers map[string]string, cluster string) map[string]string {
	all := make(map[string]string, len(headers)+1)
	for name, value := range headers {
		all[strings.ToLower(name)] = value
	}
	if cluster != "" {
		all["clusterid"] = cluster
	}
	return all
}
