package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, by Go's names.
type platform struct{ os, arch string }

// String returns OS-ARCH, as in file names.
func (p platform) String() string { return p.os + "-" + p.arch }

// parsePlatforms parses a list of OS/ARCH, and returns the platforms of Linux, for which everything
// is released, and the others, for which only pilotctl is. It refuses an architecture of Linux for
// which no Envoy is pinned, and a list without Linux.
func parsePlatforms(list string) (servers, clients []platform, err error) {
	for text := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(text, "/")
		p := platform{system, arch}
		_, pinned := pins()[arch]
		switch {
		case system == "linux" && pinned:
			servers = append(servers, p)
		case system == "" || system == "linux" || arch == "":
			return nil, nil, fmt.Errorf("%q is not a platform with a pinned Envoy", text)
		default:
			clients = append(clients, p)
		}
	}
	if len(servers) == 0 {
		return nil, nil, fmt.Errorf("%q has no platform of Linux", list)
	}
	return servers, clients, nil
}

// linuxPrograms lists the programs of the archives for Linux.
func linuxPrograms() []string {
	return []string{"istio-cni", "istio-iptables", "pilot-agent", "pilot-discovery", "pilotctl"}
}

// program returns the path of a built program.
func (r *release) program(p platform, name string) string {
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, "programs", p.String(), name)
}

// buildPrograms builds the programs of all platforms, one platform at a time.
func (r *release) buildPrograms(ctx context.Context) error {
	for _, p := range r.platforms {
		if err := r.build(ctx, p, linuxPrograms()...); err != nil {
			return err
		}
	}
	for _, p := range r.clients {
		if err := r.build(ctx, p, "pilotctl"); err != nil {
			return err
		}
	}
	if host := hostPlatform(); !slices.Contains(r.platforms, host) {
		return r.build(ctx, host, linuxPrograms()...) // to write the man pages
	}
	return nil
}

// hostPlatform returns the platform of this machine.
func hostPlatform() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// build builds programs for a platform: static, stripped, without paths of this machine, with the
// commit as build information. grpcnotrace leaves out gRPC's debug pages of requests, which are not
// served: with their templates the linker keeps all methods of all types. disable_pgv leaves out the
// generated validation of Envoy's types, which package pgv replaces.
func (r *release) build(ctx context.Context, p platform, names ...string) error {
	dir := filepath.Join(r.work, "programs", p.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=true",
		"-tags=grpcnotrace,disable_pgv", "-ldflags=-s -w", "-o", dir + "/",
	}
	for _, name := range names {
		args = append(args, "./cmd/"+name)
	}
	fmt.Println("  ", p, strings.Join(names, " "))
	env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0"}
	return r.runCommand(ctx, env, "go", args...)
}

// runCommand runs a program in the root of the checkout. SOURCE_DATE_EPOCH is the commit's time.
// The error has the program's output.
func (r *release) runCommand(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.source.root
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.source.time.Unix()))
	cmd.Env = append(cmd.Env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
