package envoy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Version is the Envoy release that everything is tested with.
const Version = "1.40.0"

// FindBinary returns the path of the Envoy binary: $ENVOY, or where `make envoy` puts it in the user's
// cache directory.
func FindBinary() (string, error) {
	path := os.Getenv("ENVOY")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find envoy: %w", err)
		}
		path = filepath.Join(cache, "meshpilot", "envoy-"+Version, "envoy")
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find envoy (set ENVOY, or run `make envoy`): %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("find envoy: %s is not executable", path)
	}
	return path, nil
}

// RequireBinary returns the path of the Envoy binary, and skips the test if it is not installed.
// With CI=true it fails the test instead: there a skipped test must not look like a passed one.
func RequireBinary(t testing.TB) string {
	t.Helper()
	path, err := FindBinary()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}
