package component

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/workload"
)

// The files in which an agent finds its token and the roots that it trusts, below its working
// directory.
const (
	tokenFile = "var/run/secrets/tokens/istio-token"
	rootsFile = "var/run/secrets/istio/root-cert.pem"
)

// tokenLifetime is more than the time for which a mesh on one machine usually runs. An agent renews
// its certificate with the former one, and needs the token only after it was down for long.
const tokenLifetime = 30 * 24 * time.Hour

// writeIdentity writes the files that Kubernetes would mount into a pod: a token of the workload's
// service account, and the mesh's roots. dir is the working directory of the agent, caDir the
// directory of the mesh's authority.
func writeIdentity(ctx context.Context, caDir string, w Workload, dir string) error {
	mesh := workload.LocalMesh{CADir: caDir, Now: time.Now}
	roots, err := mesh.RootCertificates(ctx, w.Namespace)
	if err != nil {
		return err
	}
	token, err := mesh.SignToken(ctx, w.Namespace, w.ServiceAccount, tokenLifetime)
	if err != nil {
		return err
	}
	if err := workload.WriteToken(filepath.Join(dir, tokenFile), token); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(rootsFile)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, rootsFile), roots, 0o644)
}
