// Release writes the files of a release into a directory, without a container engine:
//
//	go run ./hack/release --version 0.6.0 --out bin/release
//
// Input: a clean checkout whose version (internal/base/obs), charts and CHANGELOG.md agree with
// --version, the Go module cache, and the files pinned by hash in pins.go. Output:
//
//	meshpilot-VERSION-linux-ARCH.tar.gz     all programs, man pages, completion
//	pilotctl-VERSION-OS-ARCH.tar.gz|.zip    pilotctl alone, for five platforms
//	*.deb, *.rpm                            packages of the control plane, the agent and pilotctl
//	images/NAME                             OCI layouts of pilot, proxyv2 and install-cni, of both platforms
//	NAME-VERSION-linux-ARCH.image.tar       the same for `docker load`, podman and kind
//	CHART-VERSION.tgz                       charts that name the images by digest
//	meshpilot-VERSION.cdx.json              software bill of materials (CycloneDX)
//	SHA256SUMS                              hashes of all of them
//
// Invariant: two runs at one commit write equal files. All times are the commit's, all lists are
// sorted, and programs are built with -trimpath. `make release-check` compares two runs.
//
// Start with run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := options{}
	flag.StringVar(&o.version, "version", "", "version of the release, without v; it must be the one of the sources")
	flag.StringVar(&o.out, "out", "bin/release", "directory to write the release into; it is replaced")
	flag.StringVar(&o.hub, "hub", "docker.io/meshpilot", "registry and folder under which the charts expect the images")
	flag.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64",
		"platforms; those that are not Linux get pilotctl only")
	flag.StringVar(&o.debianMirror, "debian-mirror", "http://deb.debian.org/{archive}",
		"mirror of Debian's packages in images; http://snapshot.debian.org/archive/{archive}/DATE has superseded versions too")
	flag.BoolVar(&o.allowDirty, "allow-dirty", false, "also release a checkout with changes that are not committed, for tests")
	flag.Parse()
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	version, out, hub       string
	platforms, debianMirror string
	allowDirty              bool
}

// release is one run: its options, the commit that it is made of, and where files are put.
type release struct {
	options
	source source
	// platforms are those of Linux, clients the others.
	platforms, clients []platform
	// work is a temporary directory with the programs and the contents of packages.
	work string
}

// run writes the release into o.out. It returns an error if the checkout is not fit for a release,
// or if a file cannot be built or fetched; then o.out is incomplete and has no SHA256SUMS.
func run(ctx context.Context, o options) error {
	r, err := newRelease(ctx, o)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"build programs", r.buildPrograms},
		{"write man pages and completion", r.writeDocuments},
		{"write archives", r.writeArchives},
		{"write packages", r.writePackages},
		{"write images", r.writeImages},
		{"write the bill of materials", r.writeBillOfMaterials},
		{"write checksums", r.writeChecksums},
	}
	for _, s := range steps {
		fmt.Println("==", s.name)
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return r.reportSizes()
}

// newRelease checks the checkout against the options, and creates an empty output directory.
func newRelease(ctx context.Context, o options) (*release, error) {
	r := &release{options: o}
	var err error
	if r.platforms, r.clients, err = parsePlatforms(o.platforms); err != nil {
		return nil, fmt.Errorf("--platforms: %w", err)
	}
	if r.out, err = filepath.Abs(o.out); err != nil {
		return nil, err
	}
	if r.source, err = readSource(ctx, o); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	r.work, err = os.MkdirTemp("", "meshpilot-release-")
	return r, err
}

// outPath returns the path of a file of the release.
func (r *release) outPath(name string) string { return filepath.Join(r.out, name) }
