package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// MavenProject is a Maven project that pins Java programs of other projects. Its target folder has
// the programs after `mvn package`.
type MavenProject struct {
	// Dir contains pom.xml. Name is the prefix of the folder in the user's cache that keeps the
	// programs; a hash of all files of Dir completes it.
	Dir, Name string
}

// ErrNoMaven is returned by MavenProject.Build if the project must be built and mvn is not installed.
var ErrNoMaven = errors.New("mvn is not installed (Maven 3.8 with Java 17)")

// Build returns the folder with the programs in the user's cache. If it is missing, Build calls
// building and builds it once, even if several processes ask at the same time. It needs mvn and a
// repository of Maven Central.
func (m MavenProject) Build(ctx context.Context, building func()) (string, error) {
	dir, err := Module(m).binaryPath("target")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", ErrNoMaven
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := Lock(filepath.Join(filepath.Dir(dir), ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another process has built it
	}
	building()
	work, err := os.MkdirTemp(filepath.Dir(dir), "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(filepath.Join(work, "project"), os.DirFS(m.Dir)); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	cmd.Dir = filepath.Join(work, "project")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, lastLines(out, 30))
	}
	return dir, os.Rename(filepath.Join(work, "project", "target"), dir)
}
