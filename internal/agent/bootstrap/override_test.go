package bootstrap

import (
	"strings"
	"testing"
)

// TestParseOverride checks what Envoy gets as --config-yaml, which it refuses unless it is a mapping.
func TestParseOverride(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "{}",
		"# nothing is overridden\n":         "{}",
		"null":                              "{}",
		"stats_flush_interval: 10s":         `{"stats_flush_interval":"10s"}`,
		"node: {metadata: {h: $(HOST_IP)}}": `{"node":{"metadata":{"h":"192.0.2.1"}}}`,
	} {
		if got, err := ParseOverride([]byte(text), "192.0.2.1"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"text", "- a list", "a: b: c"} {
		if got, err := ParseOverride([]byte(text), ""); err == nil || !strings.Contains(err.Error(), "want a mapping") {
			t.Errorf("%q: %q, %v, want an error about a mapping", text, got, err)
		}
	}
	if got, err := ParseOverride([]byte("a: $(HOST_IP)"), ""); err == nil || !strings.Contains(err.Error(), "HOST_IP") {
		t.Errorf("without an address of the host: %q, %v", got, err)
	}
}
