package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// Directory is a mesh without Kubernetes, by the directory that its authority is kept in (pilot-discovery --caDir).
type Directory struct {
	CA string
	// MeshConfig is the file with the mesh configuration; "": none.
	MeshConfig string
	// Audiences are those of tokens; none: istio-ca.
	Audiences []string
	Now       func() time.Time
}

var _ Mesh = Directory{}

// Config reads the file.
func (d Directory) Config(context.Context) (*meshconfig.MeshConfig, error) {
	if d.MeshConfig == "" {
		return new(meshconfig.MeshConfig), nil
	}
	text, err := os.ReadFile(d.MeshConfig)
	if err != nil {
		return nil, fmt.Errorf("read the mesh configuration: %w", err)
	}
	return parseMeshConfig(text)
}

// Roots reads the authority's roots.
func (d Directory) Roots(context.Context, string) ([]byte, error) {
	for _, name := range []string{"root-cert.pem", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(d.CA, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the roots: %w", err)
		}
		if _, err := ca.ParseCertificates(text); err != nil {
			return nil, fmt.Errorf("read the roots in %q: %w", d.CA, err)
		}
		return text, nil
	}
	return nil, fmt.Errorf("there is no root-cert.pem in %q: the control plane makes it at its first start with --caDir", d.CA)
}

// Token signs with the key of workload tokens.
func (d Directory) Token(_ context.Context, namespace, serviceAccount string, lifetime time.Duration) (string, error) {
	key, err := ca.ReadTokenKey(d.CA)
	if err != nil {
		return "", err
	}
	audiences := d.Audiences
	if len(audiences) == 0 {
		audiences = []string{"istio-ca"}
	}
	return authenticate.SignWorkloadToken(key, namespace, serviceAccount, audiences, d.Now(), lifetime)
}

// Cluster is not known.
func (Directory) Cluster(context.Context) (string, error) { return "", nil }

// Ingress is not known.
func (Directory) Ingress(context.Context, string) (string, error) { return "", nil }
