package adapter_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// TestRunRefusesOptions tests that a mistake is an error before anything is served.
func TestRunRefusesOptions(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.pem")
	if err := os.WriteFile(garbage, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]adapter.Options{
		"Platform is empty":             {Address: "127.0.0.1:0"},
		"must be a loopback address":    {Platform: "P", Address: ":0"},
		"0.0.0.0 must be a loopback":    {Platform: "P", Address: "0.0.0.0:0"},
		"missing port":                  {Platform: "P", Address: "127.0.0.1"},
		"Options.TLS: ":                 {Platform: "P", Address: ":0", TLS: &adapter.TLS{CertFile: garbage, KeyFile: garbage}},
		"metrics: listen tcp: address ": {Platform: "P", Address: "127.0.0.1:0", MetricsAddress: "x"},
	} {
		p := adapter.PlatformFunc(func(context.Context, adapter.Sink) error { t.Error("the platform is watched"); return nil })
		if err := adapter.Run(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
