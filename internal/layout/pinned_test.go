package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEnvoyIsPinned: the package with Envoy is installed by hash only, for each platform, and nothing else in the repository fetches one.
func TestEnvoyIsPinned(t *testing.T) {
	text, err := os.ReadFile("../../hack/envoy.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := string(text)
	for _, platform := range []string{"x86_64", "aarch64"} {
		if !regexp.MustCompile(`(?m)^  [0-9a-f]{64} # manylinux\w*_` + platform + `$`).MatchString(script) {
			t.Errorf("hack/envoy.sh has no hash for %s", platform)
		}
	}
	installs := regexp.MustCompile(`(?m)"\$\{pip\[@\]\}" (install|download)(.*\\\n)*.*`).FindAllString(script, -1)
	if len(installs) != 1 || !strings.Contains(installs[0], "--require-hashes") {
		t.Errorf("pip is called without --require-hashes: %q", installs)
	}
	docker, err := os.ReadFile("../../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`pip3? (install|download)|curl|wget`).Match(docker) || !strings.Contains(string(docker), "hack/envoy.sh") {
		t.Error("docker/Dockerfile fetches programs by other means than hack/envoy.sh")
	}
}
