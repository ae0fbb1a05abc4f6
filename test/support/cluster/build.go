package cluster

import (
	"context"
	"os/exec"
)

// Kubectl returns the path of kubectl: the one in PATH, or else a built one.
func (p *Programs) Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return p.Path(ctx, "kubectl")
}
