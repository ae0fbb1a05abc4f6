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

// LocalMesh is a mesh without Kubernetes, read from the directory of its authority (pilot-discovery
// --caDir).
type LocalMesh struct {
	CADir string
	// MeshConfigFile is the path of the mesh configuration. If empty, the mesh has none.
	MeshConfigFile string
	// Audiences are the audiences of tokens (default istio-ca).
	Audiences []string
	// Now returns the current time. It must be set.
	Now func() time.Time
}

var _ Mesh = LocalMesh{}

// MeshConfig returns the configuration in MeshConfigFile, or an empty one if that is not set. It
// returns an error if the file is missing or invalid.
func (d LocalMesh) MeshConfig(context.Context) (*meshconfig.MeshConfig, error) {
	if d.MeshConfigFile == "" {
		return new(meshconfig.MeshConfig), nil
	}
	text, err := os.ReadFile(d.MeshConfigFile)
	if err != nil {
		return nil, fmt.Errorf("read the mesh configuration: %w", err)
	}
	return parseMeshConfig(text)
}

// RootCertificates returns the roots in CADir, in PEM: root-cert.pem, or ca.crt if that is missing.
// It returns an error if both are missing, or the one file is unreadable or no certificates.
func (d LocalMesh) RootCertificates(context.Context, string) ([]byte, error) {
	for _, name := range []string{"root-cert.pem", "ca.crt"} {
		text, err := os.ReadFile(filepath.Join(d.CADir, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the roots: %w", err)
		}
		if _, err := ca.ParseCertificates(text); err != nil {
			return nil, fmt.Errorf("read the roots in %q: %w", d.CADir, err)
		}
		return text, nil
	}
	return nil, fmt.Errorf(
		"no root-cert.pem in %q: the control plane creates it at its first start with --caDir",
		d.CADir)
}

// SignToken returns a token signed with the workload token key in CADir, by default for the
// audience istio-ca. A missing or unusable key is an error.
func (d LocalMesh) SignToken(
	_ context.Context,
	namespace, serviceAccount string,
	lifetime time.Duration,
) (string, error) {
	key, err := ca.ReadTokenKey(d.CADir)
	if err != nil {
		return "", err
	}
	audiences := d.Audiences
	if len(audiences) == 0 {
		audiences = []string{"istio-ca"}
	}
	return authenticate.SignWorkloadToken(key, namespace, serviceAccount, audiences, d.Now(), lifetime)
}

// ClusterName returns "", because the name is unknown.
func (LocalMesh) ClusterName(context.Context) (string, error) { return "", nil }

// IngressAddress returns "", because the address is unknown.
func (LocalMesh) IngressAddress(context.Context, string) (string, error) { return "", nil }
