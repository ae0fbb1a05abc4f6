package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// TestChartsNameImagesByDigest renders the packaged charts: the images of the objects and of the injection
// configuration are those of the release by digest, and there are no others. With -release, it reads the charts
// and the images of that release.
func TestChartsNameImagesByDigest(t *testing.T) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{options: options{version: obs.Version, out: t.TempDir(), hub: "registry.example.com/mesh"}}
	r.source.root = absolute
	digests := map[string]string{}
	for i, spec := range imageSpecs() {
		digests[spec.name] = "sha256:" + strings.Repeat(string(rune('a'+i)), 64)
	}
	if *releaseDir == "" {
		if err := r.writeCharts(t.Context(), digests); err != nil {
			t.Fatal(err)
		}
	} else {
		r.out = *releaseDir
		for name := range digests {
			digests[name] = imageDigest(t, name)
		}
	}
	for _, chart := range chartNames() {
		want := map[string]bool{}
		for _, v := range imageValues()[chart] {
			want[v.image+":"+r.version+"@"+digests[v.image]] = true
		}
		got := namedImages(renderChart(t, r.outPath(chart+"-"+r.version+".tgz")))
		if !maps.Equal(got, want) {
			t.Errorf("the chart %s names the images %v, want %v", chart, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// imageDigest returns the digest of an image of the release, with all its platforms.
func imageDigest(t *testing.T, name string) string {
	t.Helper()
	index, err := layout.ImageIndexFromPath(filepath.Join(*releaseDir, "images", name))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout of %s has not one image: %v, %v", name, manifest, err)
	}
	return manifest.Manifests[0].Digest.String()
}

// namedImages returns the images that rendered objects name, without registry and folder. It leaves out what
// the webhook or a template fills in.
func namedImages(objects string) map[string]bool {
	images := map[string]bool{}
	for _, m := range regexp.MustCompile(`"?\b(?:image|proxyImage|proxyInitImage)"?: *"?([^\s",{}]+)`).FindAllStringSubmatch(objects, -1) {
		if m[1] != "auto" {
			images[m[1][strings.LastIndexByte(m[1], '/')+1:]] = true
		}
	}
	return images
}

// renderChart returns the objects of a packaged chart with its default values.
func renderChart(t *testing.T, file string) string {
	t.Helper()
	programs, err := cluster.FindPrograms(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	helm, err := programs.Path(t.Context(), "helm")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helm, "template", "test", file)
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template %s: %v", file, err)
	}
	return string(out)
}
