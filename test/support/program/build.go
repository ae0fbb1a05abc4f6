package program

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Build builds a program and returns its path. It is called as its package; one in a folder "app"
// as the folder above.
func Build(ctx context.Context, pkg string) (string, error) {
	files, err := buildAll(ctx, pkg)
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// Into builds programs and puts them into a directory, which is made if it is not there.
func Into(ctx context.Context, dir string, pkgs ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := buildAll(ctx, pkgs...)
	if err != nil {
		return err
	}
	for i, file := range files {
		if err := PlaceFile(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return fmt.Errorf("put %s into its place: %w", pkgs[i], err)
		}
	}
	return nil
}

// buildAll builds programs and returns their paths, in the order of the packages.
func buildAll(ctx context.Context, pkgs ...string) ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if err := touchSources(root); err != nil {
		return nil, err
	}
	dir, err := cacheDir(root)
	if err != nil {
		return nil, err
	}
	unlock, err := Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	var files []string
	for _, pkg := range pkgs {
		name := path.Base(pkg)
		if name == "app" {
			name = path.Base(path.Dir(pkg))
		}
		file := filepath.Join(dir, name)
		cmd := exec.CommandContext(
			ctx,
			"go",
			"build",
			"-buildvcs=false",
			"-o",
			file,
			"./"+pkg,
		) // it does nothing if nothing has changed
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
		files = append(files, file)
	}
	return files, nil
}

// PlaceFile links a file at a second path, or copies it to another file system. It replaces a file
// there. A program that is built again does not change the second path.
func PlaceFile(from, to string) error {
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// originFile has the path of the checkout that a directory of the cache belongs to.
const originFile = ".checkout"

// cacheDir is where the programs of a checkout are kept: checkouts do not share binaries. A new
// binary replaces the binaries of deleted checkouts.
func cacheDir(root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	cache = filepath.Join(cache, "meshpilot")
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(cache, fmt.Sprintf("checkout-%x", sum[:6]))
	origin := filepath.Join(dir, originFile)
	if _, err := os.Stat(origin); err == nil {
		return dir, nil
	}
	if err := sweepCache(cache); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(origin, []byte(root), 0o644)
}

// sweepCache removes the programs of checkouts that are not there any more.
func sweepCache(cache string) error {
	origins, err := filepath.Glob(filepath.Join(cache, "checkout-*", originFile))
	if err != nil {
		return err
	}
	for _, origin := range origins {
		root, err := os.ReadFile(origin)
		if err != nil {
			continue // another process sweeps too
		}
		if _, err := os.Stat(string(root)); !os.IsNotExist(err) {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(origin)); err != nil {
			return fmt.Errorf("remove the programs of %s, which does not exist any more: %w", root, err)
		}
	}
	return nil
}

// touchSources reads every folder of the programs' sources. The go command records what a test
// opened, for a folder the sizes and times of its entries, and discards cached results if it
// differs.
func touchSources(root string) error {
	for _, top := range []string{"cmd", "internal", "manifests", "samples", "test/support"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(_ string, _ os.DirEntry, err error) error { return err })
		if err != nil {
			return fmt.Errorf("read the sources: %w", err)
		}
	}
	return nil
}
