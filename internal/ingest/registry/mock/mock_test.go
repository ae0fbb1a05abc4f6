package mock

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const webYAML = `
- name: web
  namespace: shop
  hosts: [web.example]
  ports: [{name: http, number: 80, protocol: HTTP}]
  instances: [{id: web-1, address: 192.0.2.1}, {id: web-2, address: 192.0.2.2, health: unhealthy}]
- name: db
  hosts: [db.example]
  ports: [{name: tcp, number: 5432}]
  instances: []
`

// write writes a file in one step.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	next := filepath.Join(dir, ".next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// TestFollowsTheDirectory changes files and compares the services that a Follower has in use.
func TestFollowsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", webYAML)
	services, problems := map[string]adapter.Service{}, map[string]string{}
	changes := make(chan adapter.Change)
	f := adapter.NewFollower(New(Settings{Dir: dir}, slog.New(slog.DiscardHandler)), adapter.FollowOptions{}, func(c adapter.Change) {
		select {
		case changes <- c:
		case <-t.Context().Done():
		}
	})
	done := make(chan struct{})
	go func() { defer close(done); f.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	await := func(what string, fulfilled func() bool) {
		t.Helper()
		limit := time.After(30 * time.Second)
		for !fulfilled() {
			select {
			case c := <-changes:
				for _, s := range c.Set {
					services[s.String()] = s
				}
				for _, k := range c.Deleted {
					delete(services, k.String())
				}
				for k, err := range c.Problems {
					delete(problems, k.String())
					if err != nil {
						problems[k.String()] = err.Error()
					}
				}
			case <-limit:
				t.Fatalf("%s: services %v, problems %v", what, services, problems)
			}
		}
	}
	await("start", func() bool {
		return len(services) == 2 && len(services["shop/web"].Instances) == 2 && services["shop/web"].Instances[1].Health == adapter.Unhealthy
	})
	write(t, dir, "b.json", `{"name": "api", "hosts": ["api.example"], "ports": [{"name": "http", "number": 80}], "instances": []}`)
	await("another file", func() bool { return services["default/api"].Name == "api" })
	write(t, dir, "a.yaml", "- name: [")
	await("an invalid file", func() bool { return strings.Contains(problems["shop/web"], "a.yaml") && len(services) == 3 })
	write(t, dir, "a.yaml", strings.Replace(webYAML, "192.0.2.1}", "192.0.2.3}", 1))
	await("a valid file", func() bool { return services["shop/web"].Instances[0].Address == "192.0.2.3" && len(problems) == 0 })
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	await("a removed file", func() bool { return len(services) == 1 })
}

func TestParseRefusesUnknownFields(t *testing.T) {
	if _, err := parse([]byte("name: a\nhost: b\n")); err == nil || !strings.Contains(err.Error(), "host") {
		t.Errorf("error %v", err)
	}
}

func TestMissingDirectoryIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := New(Settings{Dir: filepath.Join(t.TempDir(), "missing")}, slog.New(slog.DiscardHandler))
	if err := p.Watch(ctx, nil); err == nil {
		t.Error("a missing directory is no error")
	}
	for _, s := range []Settings{{}, {Dir: "/nonexistent"}, {Dir: os.Args[0]}} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}
