package mesh

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// controlPlaneHost is what the control plane's certificate calls it, where there is no Kubernetes too.
const controlPlaneHost = "istiod.istio-system.svc"

// Where an agent looks for what it proves itself with, and what it believes, below its working directory.
const (
	tokenFile = "var/run/secrets/tokens/istio-token"
	rootsFile = "var/run/secrets/istio/root-cert.pem"
)

// authority is the mesh's certificate authority: a directory that pilot-discovery keeps.
type authority struct {
	dir      string
	pilotctl string
}

// admit gives a pod's agent, which works in dir, a token of the pod's service account and the mesh's roots: what Kubernetes would
// mount into the pod.
func (a authority) admit(ctx context.Context, node *netns.Node, pod *corev1.Pod, dir string) error {
	for _, file := range []string{tokenFile, rootsFile} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			return err
		}
	}
	roots, err := os.ReadFile(filepath.Join(a.dir, "root-cert.pem"))
	if err != nil {
		return fmt.Errorf("reading the mesh's roots: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, rootsFile), roots, 0o644); err != nil {
		return err
	}
	p, err := node.Start(netns.Command{
		Name: "token", Path: a.pilotctl,
		Args: []string{
			"workload", "token", "--caDir", a.dir, "--namespace", pod.Namespace, "--service-account", serviceAccount(pod),
			"--out", filepath.Join(dir, tokenFile),
		},
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

func serviceAccount(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}
