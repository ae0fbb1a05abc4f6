package compat

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/program"
)

var withPeers = flag.Bool("peers", false, "build Istio's programs if they are not in the cache (some 5 minutes), and run the tests that need them")

// requirePeers skips the test unless it is run by `make compat`.
func requirePeers(t *testing.T) {
	t.Helper()
	if !*withPeers {
		t.Skip("needs Istio's programs: `make compat` builds them and runs this test")
	}
}

// peer returns the path of one of Istio's programs.
func peer(t *testing.T, name string) string {
	t.Helper()
	requirePeers(t)
	path, err := program.BuildIstio(t.Context(), name, func() {
		t.Logf("building Istio's %s: once, up to 5 minutes", name)
	})
	if err != nil {
		t.Fatalf("build Istio's %s: %v", name, err)
	}
	return path
}

// bootstrapTemplate returns the template that Istio's agent makes Envoy's bootstrap of. It is part of Istio's image.
func bootstrapTemplate(t *testing.T) string {
	t.Helper()
	return sourceFile(t, "tools", "packaging", "common", "envoy_bootstrap.json")
}

// sourceFile returns the path of a file or folder of Istio's sources.
func sourceFile(t *testing.T, elements ...string) string {
	t.Helper()
	istio, err := program.IstioModule()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := istio.SourceOf(t.Context(), "istio.io/istio")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(append([]string{dir}, elements...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}
