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

// Options are the settings of Configure, as istioctl x workload entry configure has them.
type Options struct {
	// Namespace and Revision are the control plane's.
	Namespace, Revision string
	// Cluster is the name of the cluster that the workload counts to; "": the mesh is asked.
	Cluster string
	// TokenLifetime is how long the workload has for its first connection; from then on its certificate speaks for it.
	TokenLifetime time.Duration
	// IngressAddress is where the workload reaches the control plane; "": that of the Service IngressService.
	IngressAddress, IngressService string
	// InternalAddress and ExternalAddress are the workload's own; of the two one may be set.
	InternalAddress, ExternalAddress string
	// AutoRegister has the control plane make a WorkloadEntry when the workload connects, CaptureDNS the agent answer the names of services.
	AutoRegister, CaptureDNS bool
}

// Files are what a workload needs, by the names that the agent's package for virtual machines looks for.
type Files map[string][]byte

// The names of the files.
const (
	EnvironmentFile = "cluster.env"
	MeshFile        = "mesh.yaml"
	RootsFile       = "root-cert.pem"
	TokenFile       = "istio-token"
	HostsFile       = "hosts"
)

// Configure makes the files for workloads of a group. Warnings are for people.
func Configure(ctx context.Context, m Mesh, g Group, o Options) (files Files, warnings []string, err error) {
	if g.Namespace == "" {
		return nil, nil, errors.New("the WorkloadGroup has no namespace")
	}
	if o.InternalAddress != "" && o.ExternalAddress != "" {
		return nil, nil, errors.New("--internalIP and --externalIP: only one of them may be set")
	}
	config, err := m.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	if o.Cluster == "" {
		if o.Cluster, err = m.Cluster(ctx); err != nil {
			return nil, nil, fmt.Errorf("--clusterID: %w", err)
		}
	}
	proxy, err := proxyConfig(config, g, o)
	if err != nil {
		return nil, nil, err
	}
	files = Files{EnvironmentFile: environment(proxy, g, o)}
	if files[MeshFile], err = meshFile(proxy); err != nil {
		return nil, nil, err
	}
	if files[RootsFile], err = m.Roots(ctx, g.Namespace); err != nil {
		return nil, nil, err
	}
	token, err := m.Token(ctx, g.Namespace, g.Spec.Template.ServiceAccount, o.TokenLifetime)
	if err != nil {
		return nil, nil, err
	}
	files[TokenFile] = []byte(token)
	if files[HostsFile], err = hosts(ctx, m, o); err != nil {
		return nil, nil, err
	}
	if len(files[HostsFile]) == 0 {
		warnings = append(warnings, "the address at which the workload reaches "+controlPlaneHost(o.Namespace, o.Revision)+" is not known: hosts is empty; give --ingressIP if its DNS does not know it")
	}
	return files, warnings, nil
}

// Write writes the files into a directory. The token is for nobody else's eyes.
func (f Files) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the files of a workload: %w", err)
	}
	for name, text := range f {
		mode := os.FileMode(0o644)
		if name == TokenFile {
			mode = 0o600
		}
		if err := replace(filepath.Join(dir, name), text, mode); err != nil {
			return fmt.Errorf("write the files of a workload: %w", err)
		}
	}
	return nil
}

// replace puts a file in the place of one that may be read meanwhile.
func replace(name string, text []byte, mode os.FileMode) error {
	next, err := os.CreateTemp(filepath.Dir(name), ".new")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(next.Name()) }() // it has another name by then, or is not wanted
	_, err = next.Write(text)
	if err := errors.Join(err, next.Chmod(mode), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), name)
}

// WriteToken writes a token as [Files.Write] does.
func WriteToken(name, token string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	return replace(name, []byte(token), 0o600)
}

func hosts(ctx context.Context, m Mesh, o Options) ([]byte, error) {
	address := o.IngressAddress
	if address == "" {
		var err error
		if address, err = m.Ingress(ctx, o.IngressService); err != nil {
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

func revisioned(revision string) bool { return revision != "" && revision != "default" }

func controlPlaneHost(namespace, revision string) string {
	if revisioned(revision) {
		return "istiod-" + revision + "." + namespace + ".svc"
	}
	return "istiod." + namespace + ".svc"
}

func controlPlaneAddress(o Options) string {
	return controlPlaneHost(o.Namespace, o.Revision) + ":15012"
}

// discovery gives the address of the control plane that a proxy is told, "" to leave it at its default.
func discovery(c *meshconfig.ProxyConfig, o Options) string {
	if c.GetDiscoveryAddress() != "" || !revisioned(o.Revision) && o.Namespace == "istio-system" {
		return c.GetDiscoveryAddress()
	}
	return controlPlaneAddress(o)
}
