package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// ErrShallow is returned by BuildPrevious if this clone lacks the commit.
var ErrShallow = errors.New("this clone does not have it (`git fetch --unshallow --tags` gets the whole history)")

// BuildPrevious builds a program of the release before this one: of the newest tag before HEAD or,
// if there is none, of a commit. It returns its path and the tag or commit. The sources are read
// with git archive, so that the repository is not changed; binaries are kept in the user's cache.
func BuildPrevious(ctx context.Context, commit, pkg string) (binary, version string, err error) {
	root, full, version, err := findPrevious(ctx, commit)
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("find the cache directory: %w", err)
	}
	dir := filepath.Join(cache, "meshpilot", "previous-"+full[:12])
	binary = filepath.Join(dir, path.Base(pkg))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	unlock, err := Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, version, nil
	}
	return binary, version, buildCommit(ctx, root, full, pkg, binary)
}

// UnpackPrevious writes files and folders of the release before this one, as BuildPrevious finds it,
// into a directory. It returns the tag or commit.
func UnpackPrevious(ctx context.Context, commit, dir string, paths ...string) (version string, err error) {
	root, full, version, err := findPrevious(ctx, commit)
	if err != nil {
		return "", err
	}
	return version, unpackCommit(ctx, root, full, dir, paths...)
}

// findPrevious returns the root of this checkout, and the commit of the newest tag before HEAD or, if
// there is none, of commit. version is the tag or commit.
func findPrevious(ctx context.Context, commit string) (root, full, version string, err error) {
	if root, err = Root(); err != nil {
		return "", "", "", err
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	version = commit
	if tag, err := git("describe", "--tags", "--abbrev=0", "HEAD^"); err == nil {
		version = tag
	}
	full, err = git("rev-parse", "--verify", "--quiet", version+"^{commit}")
	if err != nil {
		return "", "", "", fmt.Errorf("the release before, %s: %w", version, ErrShallow)
	}
	return root, full, version, nil
}

// buildCommit builds a program from the sources of a commit, which it unpacks into a temporary
// directory.
func buildCommit(ctx context.Context, root, commit, pkg, binary string) error {
	sources, err := os.MkdirTemp("", "meshpilot-previous")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sources)
	if err := unpackCommit(ctx, root, commit, sources); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./"+pkg)
	build.Dir = sources
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of %s: %w\n%s", pkg, commit, err, out)
	}
	return nil
}

// unpackCommit writes the files of a commit, or those below paths, into a directory.
func unpackCommit(ctx context.Context, root, commit, dir string, paths ...string) error {
	archive := exec.CommandContext(ctx, "git", append([]string{"archive", "--format=tar", commit}, paths...)...)
	archive.Dir = root
	text, err := archive.Output()
	if err != nil {
		return fmt.Errorf("read the sources of %s: %w", commit, err)
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(text)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack the sources of %s: %w\n%s", commit, err, out)
	}
	return nil
}
