package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds a program of this checkout, such as "./cmd/pilot-agent", and gives its path in the cache directory. It is quick
// when nothing has changed since; processes that build at the same time wait for each other.
func (p *Programs) Build(ctx context.Context, pkg string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	// Checkouts do not share what they build.
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(p.cache, fmt.Sprintf("checkout-%x", sum[:6]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, lastLines(out, 30))
	}
	return path, nil
}

// Kubectl gives the path of kubectl: that in PATH if there is one, else one that is built.
func (p *Programs) Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return p.Path(ctx, "kubectl")
}
