package main

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// releaseDir has the images that TestImagesRun runs.
var releaseDir = flag.String("release", "", "directory of a release whose images TestImagesRun runs") //nolint:gochecknoglobals // a flag

// TestImagesRun runs the entry point of each image for this machine's platform, as the image's user
// and with nothing but the image's files, and Envoy in proxyv2.
func TestImagesRun(t *testing.T) {
	if *releaseDir == "" {
		t.Skip("it needs a release: `make release-vm` runs it")
	}
	for _, spec := range imageSpecs() {
		image := openImage(t, spec.name)
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		unpack(t, image, root)
		user := config.Config.User
		if user == "" {
			user = "0:0"
		}
		run := func(want string, command ...string) {
			t.Helper()
			args := append([]string{"--userspec", user, root}, command...)
			out, err := exec.CommandContext(t.Context(), "chroot", args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %s as %s: %v\n%s", spec.name, command, user, err, out)
			}
		}
		run(obs.Version, append(config.Config.Entrypoint, "version")...)
		if spec.envoy {
			run("/"+envoyVersion+"/", "/usr/local/bin/envoy", "--version")
		}
	}
}

// openImage returns an image of the release for this machine's platform.
func openImage(t *testing.T, name string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(filepath.Join(*releaseDir, "images", name))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := platforms.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range inner.Manifests {
		if m.Platform.Architecture == hostPlatform().arch {
			image, err := platforms.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("%s has no image for %s", name, hostPlatform())
	return nil
}

// unpack writes the files of an image into a folder, with their owners and modes.
func unpack(t *testing.T, image v1.Image, root string) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-x", "-C", root)
	cmd.Stdin = content
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
}
