package workload

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Options are the settings of Configure, with the meaning of istioctl x workload entry configure.
type Options struct {
	// Namespace and Revision are the control plane's.
	Namespace, Revision string
	// Cluster is the name of the workload's cluster. If empty, the mesh's is used.
	Cluster string
	// TokenLifetime is how long the token can be used for the first connection; later ones use the
	// certificate.
	TokenLifetime time.Duration
	// IngressAddress is the control plane's address for the workload. If empty, the address of the
	// Service IngressService is used.
	IngressAddress, IngressService string
	// InternalAddress and ExternalAddress are the workload's own addresses. At most one may be set.
	InternalAddress, ExternalAddress string
	// AutoRegister has the control plane create a WorkloadEntry when the workload connects.
	// CaptureDNS has the agent resolve service names.
	AutoRegister, CaptureDNS bool
}

// Files are the generated files by name.
type Files map[string][]byte

// The file names that the agent's package for virtual machines expects.
const (
	EnvironmentFile = "cluster.env"
	MeshFile        = "mesh.yaml"
	RootsFile       = "root-cert.pem"
	TokenFile       = "istio-token"
	HostsFile       = "hosts"
)

// Configure returns the files with which workloads of group g, as ParseGroup returns it, join the
// mesh m. It returns a warning if the hosts file is empty because the control plane's address is
// unknown. It returns an error if the group has no namespace or an invalid annotation, or if both
// addresses in o are set. It also returns the errors of m and hostsFile; the token is valid for
// o.TokenLifetime.
func Configure(ctx context.Context, m Mesh, g Group, o Options) (files Files, warnings []string, err error) {
	if g.Namespace == "" {
		return nil, nil, errors.New("the WorkloadGroup has no namespace")
	}
	if o.InternalAddress != "" && o.ExternalAddress != "" {
		return nil, nil, errors.New("--internalIP and --externalIP: only one of them may be set")
	}
	config, err := m.MeshConfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	if o.Cluster == "" {
		if o.Cluster, err = m.ClusterName(ctx); err != nil {
			return nil, nil, fmt.Errorf("--clusterID: %w", err)
		}
	}
	proxy, err := proxyConfig(config, g, o)
	if err != nil {
		return nil, nil, err
	}
	files = Files{EnvironmentFile: environmentFile(proxy, g, o)}
	if files[MeshFile], err = meshFile(proxy); err != nil {
		return nil, nil, err
	}
	if files[RootsFile], err = m.RootCertificates(ctx, g.Namespace); err != nil {
		return nil, nil, err
	}
	token, err := m.SignToken(ctx, g.Namespace, g.Spec.Template.ServiceAccount, o.TokenLifetime)
	if err != nil {
		return nil, nil, err
	}
	files[TokenFile] = []byte(token)
	if files[HostsFile], err = hostsFile(ctx, m, o); err != nil {
		return nil, nil, err
	}
	if len(files[HostsFile]) == 0 {
		warnings = append(
			warnings,
			"the address of "+controlPlaneHost(
				o.Namespace,
				o.Revision,
			)+" is unknown and hosts is empty; set --ingressIP unless DNS resolves it",
		)
	}
	return files, warnings, nil
}

// Write writes the files into dir, replacing existing ones atomically. The token has mode 0600. The
// other files are readable for all; the directory is created if needed. It stops at the first
// error.
func (f Files) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the files of a workload: %w", err)
	}
	for name, text := range f {
		mode := os.FileMode(0o644)
		if name == TokenFile {
			mode = 0o600
		}
		if err := replaceFile(filepath.Join(dir, name), text, mode); err != nil {
			return fmt.Errorf("write the files of a workload: %w", err)
		}
	}
	return nil
}

// replaceFile writes a file with the given mode atomically, so that concurrent readers see the old
// or the new content. If it fails, the old file stays.
func replaceFile(name string, text []byte, mode os.FileMode) error {
	next, err := os.CreateTemp(filepath.Dir(name), ".new")
	if err != nil {
		return err
	}
	// best effort: a leftover temporary file is harmless
	defer func() { _ = os.Remove(next.Name()) }()
	_, err = next.Write(text)
	if err := errors.Join(err, next.Chmod(mode), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), name)
}

// WriteToken writes a token file with mode 0600, replacing an existing one atomically. It creates a
// missing directory.
func WriteToken(name, token string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	return replaceFile(name, []byte(token), 0o600)
}

// hostsFile returns the hosts entry of the control plane, or no bytes if its address is unknown. It
// returns an error if the address is no IP address or cannot be looked up. An address that Options
// names is used first.
func hostsFile(ctx context.Context, m Mesh, o Options) ([]byte, error) {
	address := o.IngressAddress
	if address == "" {
		var err error
		if address, err = m.IngressAddress(ctx, o.IngressService); err != nil {
			return nil, err
		}
	}
	if address == "" {
		return []byte{}, nil
	}
	if _, err := netip.ParseAddr(address); err != nil {
		return nil, fmt.Errorf("--ingressIP: %w", err)
	}
	return []byte(address + " " + controlPlaneHost(o.Namespace, o.Revision) + "\n"), nil
}

// hasRevision reports whether the revision is neither empty nor "default".
func hasRevision(revision string) bool { return revision != "" && revision != "default" }

// controlPlaneHost returns the DNS name of the control plane's Service in a namespace:
// istiod.NAMESPACE.svc, or istiod-REVISION.NAMESPACE.svc for a revision other than "" and
// "default".
func controlPlaneHost(namespace, revision string) string {
	if hasRevision(revision) {
		return "istiod-" + revision + "." + namespace + ".svc"
	}
	return "istiod." + namespace + ".svc"
}

// controlPlaneAddress returns host and port of the control plane for workloads. The port is 15012.
func controlPlaneAddress(o Options) string {
	return controlPlaneHost(o.Namespace, o.Revision) + ":15012"
}

// discoveryAddress returns the control plane's address for the proxy configuration: the address in
// c, or else the address of the Service. It returns "" if the agent's default, istiod in
// istio-system, applies.
func discoveryAddress(c *meshconfig.ProxyConfig, o Options) string {
	if c.GetDiscoveryAddress() != "" || !hasRevision(o.Revision) && o.Namespace == "istio-system" {
		return c.GetDiscoveryAddress()
	}
	return controlPlaneAddress(o)
}
