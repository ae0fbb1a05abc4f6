package architecture

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// TestEnvoyIsPinned: the package with Envoy is installed by hash only, for each platform, and nothing else in the repository fetches one.
func TestEnvoyIsPinned(t *testing.T) {
	text, err := os.ReadFile("../../hack/envoy.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := string(text)
	for _, v := range envoy.Releases() {
		pin := fmt.Sprintf(`(?m)^  %d\.%d\) echo %s \\\n( +[0-9a-f]{64} \\?[ ;]*\n?){3}`, v.Major, v.Minor, regexp.QuoteMeta(v.String()))
		if !regexp.MustCompile(pin).MatchString(script) {
			t.Errorf("hack/envoy.sh does not pin Envoy %s by the hashes of its three wheels", v)
		}
	}
	if !strings.Contains(script, fmt.Sprintf("default=%s\n", strings.TrimSuffix(envoy.Version, ".0"))) {
		t.Errorf("hack/envoy.sh does not fetch Envoy %s by default", envoy.Version)
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
