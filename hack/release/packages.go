package main

import (
	"context"
	"path/filepath"
)

// writePackages writes the deb and rpm packages of each platform from the descriptions in
// hack/release/nfpm. nfpm is built from the module in that folder.
func (r *release) writePackages(ctx context.Context) error {
	const descriptions = "hack/release/nfpm"
	nfpm := filepath.Join(r.work, "nfpm")
	build := []string{
		"-C", descriptions, "build", "-trimpath", "-buildvcs=false",
		"-o", nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm",
	}
	if err := r.runCommand(ctx, []string{"CGO_ENABLED=0"}, "go", build...); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(r.source.root, descriptions, "*.yaml"))
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		envoy, err := r.envoy(ctx, p)
		if err != nil {
			return err
		}
		env := []string{
			"VERSION=" + r.version,
			"ARCH=" + p.arch,
			"PROGRAMS=" + filepath.Dir(r.program(p, "pilotctl")),
			"SHARE=" + r.share(),
			"ENVOY=" + envoy,
		}
		for _, name := range names {
			for _, packager := range []string{"deb", "rpm"} {
				args := []string{"package", "--config", name, "--packager", packager, "--target", r.out + "/"}
				if err := r.runCommand(ctx, env, nfpm, args...); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
