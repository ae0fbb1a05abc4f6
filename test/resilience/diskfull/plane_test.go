package diskfull

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const entry = "kind: ServiceEntry\napiVersion: networking.istio.io/v1\nmetadata: {name: %s, namespace: shop}\nspec: {hosts: [%[1]s.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n"

// TestControlPlane runs a control plane whose authority, remembered keys and configuration are on a disk that fills up, becomes read-only
// and recovers. It is ready all the while, its authority stays the same, and configuration is followed again when there is space.
func TestControlPlane(t *testing.T) {
	rounds := scorecard.BySize(longtest.Rounds(1, 5), 50, 500)
	check := scorecard.Check(t, 26, scorecard.Size("rounds with a control plane", rounds))
	unready := 0
	d := newDisk(t)
	config, authority := filepath.Join(d.path, "config"), filepath.Join(d.path, "ca")
	if err := os.Mkdir(config, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(config, "first.yaml"), fmt.Sprintf(entry, "first"))
	o := controlplane.Options(t)
	o.ConfigDir, o.SecureGRPCAddr, o.Authority.Dir, o.Registries = config, serving.FreeAddress(t), authority, nil
	p := controlplane.Start(t, o)
	serves := func(host string) {
		t.Helper()
		p.Eventually(host+" is served", func() error {
			text, err := p.GetPage("/debug/registryz")
			if err == nil && !strings.Contains(text, host+".example.com") {
				err = fmt.Errorf("not in /debug/registryz")
			}
			return err
		})
	}
	serves("first")
	key, err := os.ReadFile(filepath.Join(authority, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		d.fill()
		cut := filepath.Join(config, "first.yaml")                                        // as left by an editor that truncates a file before it writes
		longer := "# " + strings.Repeat("x", 10_000) + "\n" + fmt.Sprintf(entry, "first") // than the page that truncating frees
		if err := os.WriteFile(cut, []byte(longer), 0o600); err == nil {
			t.Fatal("the file is written although the disk is full")
		}
		if err := p.Ready(); err != nil {
			unready++
			t.Errorf("on a full disk: %v", err)
		}
		d.remountWhile(func() {
			if err := p.Ready(); err != nil {
				unready++
				t.Errorf("on a read-only disk: %v", err)
			}
		})
		d.free()
		name := fmt.Sprintf("round-%d", round)
		write(t, cut, fmt.Sprintf(entry, "first"))
		write(t, filepath.Join(config, "more.yaml"), fmt.Sprintf(entry, name))
		serves("first")
		serves(name)
		if now, err := os.ReadFile(filepath.Join(authority, "ca-key.pem")); err != nil || string(now) != string(key) {
			t.Fatalf("the authority's key has changed: %v", err)
		}
	}
	check.Measured("times not ready", unready)
}

// TestFirstStartOnAFullDisk: a control plane that cannot write its authority reports the error,
// leaves no partial authority, and starts when space is free.
func TestFirstStartOnAFullDisk(t *testing.T) {
	scorecard.Check(t, 26, scorecard.Size("first starts", 1))
	d := newDisk(t)
	o := controlplane.Options(t)
	o.SecureGRPCAddr, o.Authority.Dir, o.Registries = serving.FreeAddress(t), filepath.Join(d.path, "ca"), nil
	d.fill()
	out, err := runFor(t, o)
	if err != nil && !strings.Contains(err.Error(), "no space left") || err == nil && !strings.Contains(out, "no space left") {
		t.Errorf("the error does not name the full disk: %v\n%s", err, out)
	}
	d.free()
	p := controlplane.Start(t, o)
	if _, err := os.ReadFile(filepath.Join(d.path, "ca", "ca-cert.pem")); err != nil {
		t.Errorf("no authority although space is free again: %v\n%s", err, p.LogText())
	}
}

// remountWhile makes the disk read-only for a while.
func (d *disk) remountWhile(f func()) {
	d.t.Helper()
	d.remount(true)
	defer d.remount(false)
	f()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runFor runs a control plane until it ends, or reports that it cannot write, and returns its log.
func runFor(t *testing.T, o discovery.Options) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var log serving.Log
	o.Logs.Out = &log
	done := make(chan error, 1)
	go func() { done <- discovery.Run(ctx, o) }()
	for {
		select {
		case err := <-done:
			return log.String(), err
		case <-time.After(50 * time.Millisecond):
			if strings.Contains(log.String(), "no space left") {
				cancel()
			}
		}
	}
}
