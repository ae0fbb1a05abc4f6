package cluster

import (
	"context"
	"os/exec"
)

// Kubectl gives the path of kubectl: that in PATH if there is one, else one that is built.
func (p *Programs) Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return p.Path(ctx, "kubectl")
}
