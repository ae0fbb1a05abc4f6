package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

const root = "../.."

// TestVersion: `make release VERSION=…` accepts the version of the sources and no other.
func TestVersion(t *testing.T) {
	s := source{root: root}
	if err := s.checkVersion(obs.Version); err != nil {
		t.Error(err)
	}
	err := s.checkVersion("9.9.9")
	for _, place := range []string{"internal/base/obs/build.go", "manifests/charts/istiod/Chart.yaml", "CHANGELOG.md"} {
		if err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("the error for another version does not name %s: %v", place, err)
		}
	}
	if err := s.checkVersion(""); err == nil {
		t.Error("a missing version is accepted")
	}
}

func TestPlatforms(t *testing.T) {
	servers, clients, err := parsePlatforms("linux/arm64,darwin/amd64,linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(servers, clients); got != "[linux-arm64 linux-amd64] [darwin-amd64]" {
		t.Error(got)
	}
	for _, list := range []string{"", "linux", "linux/riscv64", "darwin/amd64", "linux/amd64,"} {
		if _, _, err := parsePlatforms(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}

// TestPins: Envoy is the one of the tests, and everything that is downloaded has a hash.
func TestPins(t *testing.T) {
	if envoyVersion != envoy.Version {
		t.Errorf("envoyVersion is %s, the tests have %s", envoyVersion, envoy.Version)
	}
	script, err := os.ReadFile(root + "/hack/envoy.sh")
	if err != nil {
		t.Fatal(err)
	}
	for arch, a := range pins() {
		if !strings.Contains(string(script), a.wheel) {
			t.Errorf("hack/envoy.sh does not list the platform %s", a.wheel)
		}
		for _, d := range []debianPackage{a.libc, a.roots} {
			if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(d.sha256) || !strings.Contains(d.path, d.version) {
				t.Errorf("%s for %s is not pinned: %+v", d.name, arch, d)
			}
		}
	}
}

// TestImagesAreTheDockerfiles: the images of a release and those of `make images` have the same
// names, users, entry points and programs.
func TestImagesAreTheDockerfiles(t *testing.T) {
	text, err := os.ReadFile(root + "/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range imageSpecs() {
		_, stage, found := strings.Cut(string(text), " AS "+spec.name+"\n")
		if !found {
			t.Errorf("docker/Dockerfile has no image %s", spec.name)
			continue
		}
		stage, _, _ = strings.Cut(stage, "\nFROM ")
		user := ""
		if m := regexp.MustCompile(`(?m)^USER (.*)$`).FindStringSubmatch(stage); m != nil {
			user = m[1]
		}
		if user != spec.user {
			t.Errorf("%s: user %q, in docker/Dockerfile %q", spec.name, spec.user, user)
		}
		if want := `ENTRYPOINT ["/usr/local/bin/` + spec.programs[0] + `"]`; !strings.Contains(stage, want) {
			t.Errorf("%s: docker/Dockerfile has no %s", spec.name, want)
		}
		for _, program := range spec.programs {
			if !strings.Contains(stage, "/out/"+program) {
				t.Errorf("%s: docker/Dockerfile does not copy %s", spec.name, program)
			}
		}
	}
}

// TestTarIsDeterministic: the order and the modes of the files on disk do not matter.
func TestTarIsDeterministic(t *testing.T) {
	at := time.Unix(1700000000, 0)
	entries := []entry{
		{name: "b/z", mode: 0o755, text: "z"}, {name: "a", mode: 0o644, text: "a"}, {name: "b/link", target: "z"},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	var first, second bytes.Buffer
	if err := writeTar(&first, entries, at); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(entries)
	if err := writeTar(&second, entries, at); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the order of the entries changes the archive")
	}
	read, err := readTar(&first, []string{"b/"})
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{{name: "b/link", target: "z"}, {name: "b/z", mode: 0o755, text: "z"}}
	if diff := cmp.Diff(want, read, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
}

// TestSetValue: only the value changes; comments and all other lines stay.
func TestSetValue(t *testing.T) {
	const document = "# top\nimage: pilot # the control plane\nglobal:\n  proxy:\n    image: \"proxyv2\"\n  list: [a]\n"
	got, err := setValue(document, "hub/pilot@sha256:1", "image")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = setValue(got, "hub/proxyv2@sha256:2", "global", "proxy", "image"); err != nil {
		t.Fatal(err)
	}
	want := "# top\nimage: hub/pilot@sha256:1 # the control plane\nglobal:\n  proxy:\n    image: hub/proxyv2@sha256:2\n  list: [a]\n"
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
	for _, path := range [][]string{{"tag"}, {"global", "list"}, {"image", "x"}} {
		if _, err := setValue(document, "x", path...); err == nil {
			t.Errorf("%v is accepted", path)
		}
	}
}

// TestChartImages: the values that name images exist in the charts.
func TestChartImages(t *testing.T) {
	for chart, values := range imageValues() {
		text, err := os.ReadFile(filepath.Join(root, "manifests/charts", chart, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if _, err := setValue(string(text), "x", v.path...); err != nil {
				t.Errorf("chart %s: %v", chart, err)
			}
		}
	}
}

// TestDownloadsAreChecked: a file with another hash is refused.
func TestDownloadsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkHash(file, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"); err != nil {
		t.Error(err)
	}
	if err := checkHash(file, strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "not the pinned") {
		t.Errorf("error %v", err)
	}
}
