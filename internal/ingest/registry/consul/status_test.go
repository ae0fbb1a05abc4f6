package consul

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestStatus compares the numbers and the state while services change and the server fails.
func TestStatus(t *testing.T) {
	f, url := newFakeServer(t)
	f.services = map[string][]string{"web": {"192.0.2.1", "192.0.2.2"}, "api": {"192.0.2.3"}, "secret": {"192.0.2.4"}}
	f.denied["secret"] = true
	source, await := readSource(t, url)
	require := func(want adapter.Status) {
		t.Helper()
		serving.Eventually(t, 30*time.Second, "the status", func() error {
			got := source.Status()
			if got.LastSync.IsZero() || got.Unreadable.IsZero() != want.Synced || got.LastChange.IsZero() {
				return fmt.Errorf("times of %+v", got)
			}
			got.LastSync, got.LastChange, got.Unreadable, got.Failures = time.Time{}, time.Time{}, time.Time{}, 0
			if diff := cmp.Diff(want, got); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	await("192.0.2.1 192.0.2.2 192.0.2.3", "cannot be read: status 403")
	require(adapter.Status{Synced: true, Services: 2, Instances: 3, Problems: 1})
	f.edit(func() { delete(f.denied, "secret"); f.services["web"], f.services["api"] = []string{"192.0.2.2"}, nil })
	await("192.0.2.2 192.0.2.4")
	require(adapter.Status{Synced: true, Services: 2, Instances: 2})
	f.edit(func() { f.down = http.StatusInternalServerError })
	await("192.0.2.2 192.0.2.4", "No cluster leader")
	if got := source.Status(); got.Synced || got.Unreadable.IsZero() || got.Failures == 0 || !strings.Contains(got.Error, "No cluster leader") {
		t.Errorf("while Consul cannot be read: %+v", got)
	}
	f.edit(func() { f.down, f.node, f.services["web"] = 0, "another", nil })
	await("192.0.2.2 192.0.2.4", "lost their data")
	require(adapter.Status{Synced: true, Services: 2, Instances: 2, Held: 1, Problems: 1})
}

// TestMissingTokenFile starts before the token file exists. The status names it until there is one.
func TestMissingTokenFile(t *testing.T) {
	f, url := newFakeServer(t)
	f.services = map[string][]string{"web": {"192.0.2.1"}}
	file := filepath.Join(t.TempDir(), "token")
	source, await := readSource(t, url, func(s *Source) { s.options.TokenFile = file })
	serving.Eventually(t, 30*time.Second, "the error", func() error {
		if s := source.Status(); s.Synced || !strings.Contains(s.Error, "--consulTokenFile: open "+file) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	await("192.0.2.1")
	if s := source.Status(); !s.Synced || s.Error != "" {
		t.Errorf("status %+v", s)
	}
}
