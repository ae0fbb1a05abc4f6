package program

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Module is a Go module that pins programs of other projects. It is not part of the product's
// module, so that nothing of them becomes a dependency of the product.
type Module struct {
	// Dir has its go.mod. Name is what its programs are kept under in the user's cache, besides a
	// hash of all files of Dir.
	Dir, Name string
}

// Build returns the path of a program in the user's cache, and builds the package there if it is
// missing: once, however many processes ask at the same time. It calls building before it builds.
func (m Module) Build(ctx context.Context, name, pkg, ldflags string, building func()) (string, error) {
	return m.goBuild(ctx, name, []string{"build", "-buildvcs=false", "-ldflags", ldflags}, pkg, building)
}

// BuildTest is Build for the test program of a package.
func (m Module) BuildTest(ctx context.Context, name, pkg, ldflags string, building func()) (string, error) {
	return m.goBuild(ctx, name, []string{"test", "-c", "-ldflags", ldflags}, pkg, building)
}

// goBuild returns the path of the program that a go command with these arguments builds.
func (m Module) goBuild(ctx context.Context, name string, args []string, pkg string, building func()) (string, error) {
	path, err := m.binaryPath(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	unlock, err := Lock(filepath.Join(filepath.Dir(path), ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil // another process has built it
	}
	building()
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", path+".tmp", pkg)...)
	cmd.Dir = m.Dir
	// The module alone determines the build; flags for the product must not change it.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, lastLines(out, 30))
	}
	return path, os.Rename(path+".tmp", path)
}

// binaryPath returns a directory that is named by a hash of everything that a program is built
// from: another version has another directory.
func (m Module) binaryPath(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	hash, err := hashOf(m.Dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "meshpilot", m.Name+"-"+hash, name), nil
}

// SourceOf returns the directory of a module that this one requires, downloaded if it is not there.
func (m Module) SourceOf(ctx context.Context, module string) (string, error) {
	for _, args := range [][]string{{"mod", "download", module}, {"list", "-m", "-f", "{{.Dir}}", module}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = m.Dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("find module %s: %w", module, err)
		}
		if dir := strings.TrimSpace(string(out)); args[0] == "list" && dir != "" {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find module %s: it is not there after its download", module)
}

// hashOf hashes the names and contents of all files below a directory, and the toolchain that
// builds them.
func hashOf(dir string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		fmt.Fprintf(h, "%s %d\n%s", rel, len(content), content)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), err
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
