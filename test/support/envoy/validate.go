package envoy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Validate fails the test if Envoy refuses the Config. Where there is no Envoy it skips the test
// (see Require), so it is best called last, or in a subtest.
func Validate(t testing.TB, c Config) {
	t.Helper()
	b, err := c.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	ValidateBootstrap(t, b)
}

// ValidateBootstrap is Validate for a bootstrap made otherwise. Certificate files that it names
// need not exist.
func ValidateBootstrap(t testing.TB, b *bootstrapv3.Bootstrap) {
	t.Helper()
	binary := RequireBinary(t)
	if err := loadConfig(t.Context(), binary, t.TempDir(), b); err != nil {
		t.Error(err)
	}
}

// Refusal returns Envoy's error for the Config, or nil if Envoy accepts it. dir is an empty folder
// for its files.
func Refusal(ctx context.Context, binary, dir string, c Config) error {
	b, err := c.Bootstrap()
	if err != nil {
		return err
	}
	return loadConfig(ctx, binary, dir, b)
}

// loadConfig runs Envoy in validate mode, which takes about 50 ms and a thousand clusters as much again.
func loadConfig(ctx context.Context, binary, dir string, b *bootstrapv3.Bootstrap) error {
	cert, err := newCertificate(dir)
	if err != nil {
		return err
	}
	if b, err = cert.substituteFiles(b); err != nil {
		return err
	}
	js, err := protojson.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode the bootstrap: %w", err)
	}
	path := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(path, js, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--mode", "validate", "--log-level", "error", "--config-path", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("envoy refuses the configuration: %w\n%s", err, strings.TrimSpace(out.String()))
	}
	return nil
}
