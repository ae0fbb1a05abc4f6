package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Releases returns the releases of Envoy that are supported, one of each minor version, oldest
// first. hack/envoy.sh fetches them. The last one is Version.
func Releases() []mesh.EnvoyVersion {
	return []mesh.EnvoyVersion{
		{
			Major: 1,
			Minor: 36,
			Patch: 4,
		},
		{Major: 1, Minor: 37},
		{Major: 1, Minor: 38, Patch: 3},
		{Major: 1, Minor: 39, Patch: 3},
		{Major: 1, Minor: 40},
	}
}

// Skewed returns the releases that a test of version skew runs with: all with MESHPILOT_SKEW=true,
// which `make skew` sets, and else the oldest and the newest.
func Skewed() []mesh.EnvoyVersion {
	all := Releases()
	if os.Getenv("MESHPILOT_SKEW") == "true" {
		return all
	}
	return []mesh.EnvoyVersion{all[0], all[len(all)-1]}
}

// RequireRelease returns the path of the Envoy of a release: for the newest one as Require does,
// for the others from the user's cache. It skips the test where there is none, and with CI=true or
// MESHPILOT_SKEW=true fails it.
func RequireRelease(t testing.TB, v mesh.EnvoyVersion) string {
	t.Helper()
	if v.String() == Version {
		return RequireBinary(t)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "meshpilot", "envoy-"+v.String(), "envoy")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	minor := strings.Join(strings.SplitN(v.String(), ".", 3)[:2], ".")
	reason := fmt.Sprintf("find Envoy %s (run `make envoys`, or `hack/envoy.sh %s`): %v", v, minor, err)
	if os.Getenv("CI") == "true" || os.Getenv("MESHPILOT_SKEW") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}
