package settings

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// apiServer replaces the source that reads ConfigMaps. The test sends its events.
type apiServer chan mesh.Batch

func (apiServer) Name() string { return "the API server" }

func (a apiServer) Run(ctx context.Context, out chan<- mesh.Batch) error {
	for {
		select {
		case b := <-a:
			select {
			case out <- b:
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// configMap returns an event about a ConfigMap: a deletion if there is no data.
func configMap(t *testing.T, name string, data map[string]string) mesh.Event {
	t.Helper()
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.ConfigMap, Namespace: "istio-system", Name: name}}, &corev1.ConfigMap{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if data == nil {
		return mesh.Event{Op: mesh.Delete, Config: c}
	}
	return mesh.Event{Config: c}
}

// startWith runs a source of ConfigMaps and a file of the mesh configuration until the test ends.
func startWith(t *testing.T, file string) (apiServer, *reader) {
	t.Helper()
	a, r := make(apiServer), &reader{t: t, out: make(chan mesh.Batch)}
	s := &Source{Mesh: file, ConfigMaps: ConfigMaps{Objects: a, Namespace: "istio-system", Name: "istio", Shared: "shared"}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, r.out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t)
	})
	return a, r
}

func (a apiServer) sendEvents(t *testing.T, events ...mesh.Event) {
	t.Helper()
	select {
	case a <- events:
	case <-time.After(10 * time.Second):
		t.Fatal("the settings source does not receive the event")
	}
}

func isMesh(e mesh.Event) bool { return e.Settings != nil && e.Settings.Mesh != nil }

func isProblem(e mesh.Event) bool { return e.Problems != nil && len(e.Problems.List) > 0 }

func TestMeshConfigFollowsItsConfigMap(t *testing.T) {
	a, r := startWith(t, filepath.Join(t.TempDir(), "absent"))
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "trustDomain: one.example", "meshNetworks": "networks: {n1: {gateways: [{address: 1.2.3.4, port: 15443}]}}"}),
		mesh.Event{Op: mesh.Synced})
	if m := r.next(isMesh).Settings.Mesh; m.TrustDomain != "one.example" || m.ProxyListenPort != 15001 {
		t.Errorf("mesh config: %v", m)
	}
	if n := r.next(func(e mesh.Event) bool { return e.Settings != nil && e.Settings.Networks != nil }).Settings.Networks; n.Networks["n1"] == nil {
		t.Errorf("networks: %v", n)
	}
	r.next(func(e mesh.Event) bool { return e.Op == mesh.Synced })

	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "trustDomain: [two.example]"}))
	if p := r.next(isProblem).Problems.List[0]; p.Origin != "ConfigMap/istio-system/istio, key mesh" || !strings.Contains(p.Reason, "trustDomain: must be a string") || !strings.Contains(p.Reason, "stays in use") {
		t.Errorf("problem %v", p)
	}
	if p := r.next(isProblem).Problems.List[0]; p.Origin != "ConfigMap/istio-system/istio, key meshNetworks" || !strings.Contains(p.Reason, "was removed") {
		t.Errorf("problem %v", p)
	}
	a.sendEvents(t, configMap(t, "istio", nil))
	if p := r.next(isProblem).Problems.List[0]; p.Origin != "ConfigMap/istio-system/istio, key mesh" || !strings.Contains(p.Reason, "was removed; its last content stays in use") {
		t.Errorf("problem %v", p)
	}
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "trustDomain: three.example"}))
	r.next(func(e mesh.Event) bool { return e.Problems != nil && len(e.Problems.List) == 0 })
	if m := r.next(isMesh).Settings.Mesh; m.TrustDomain != "three.example" {
		t.Errorf("mesh config: %v", m)
	}
}

// TestSharedMeshConfig checks that the shared ConfigMap supplies the fields that the control
// plane's own ConfigMap does not set, and that changes of both apply.
func TestSharedMeshConfig(t *testing.T) {
	a, r := startWith(t, "")
	a.sendEvents(t, configMap(t, "shared", map[string]string{"mesh": "{trustDomain: shared.example, connectTimeout: 3s, defaultConfig: {drainDuration: 7s, statusPort: 1}}"}),
		configMap(t, "istio", map[string]string{"mesh": "{trustDomain: own.example, defaultConfig: {statusPort: 2}}"}), mesh.Event{Op: mesh.Synced})
	r.next(func(e mesh.Event) bool {
		return isMesh(e) && e.Settings.Mesh.TrustDomain == "own.example" && e.Settings.Mesh.ConnectTimeout.Seconds == 3 &&
			e.Settings.Mesh.DefaultConfig.DrainDuration.Seconds == 7 && e.Settings.Mesh.DefaultConfig.StatusPort == 2
	})
	a.sendEvents(t, configMap(t, "shared", map[string]string{"mesh": "connectTimeout: 4s"}))
	r.next(func(e mesh.Event) bool {
		return isMesh(e) && e.Settings.Mesh.TrustDomain == "own.example" && e.Settings.Mesh.ConnectTimeout.Seconds == 4 &&
			e.Settings.Mesh.DefaultConfig.DrainDuration.Seconds == 45
	})
}

// TestFileReplacesTheConfigMap checks that an existing file overrides the control plane's own
// ConfigMap, and that the shared one still supplies other fields.
func TestFileReplacesTheConfigMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh")
	write(t, path, "trustDomain: file.example\n")
	a, r := startWith(t, path)
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "trustDomain: own.example"}),
		configMap(t, "shared", map[string]string{"mesh": "{trustDomain: shared.example, connectTimeout: 3s}"}), mesh.Event{Op: mesh.Synced})
	r.next(func(e mesh.Event) bool {
		if isMesh(e) && e.Settings.Mesh.TrustDomain == "own.example" {
			t.Error("the ConfigMap is used")
		}
		return isMesh(e) && e.Settings.Mesh.TrustDomain == "file.example" && e.Settings.Mesh.ConnectTimeout.Seconds == 3
	})
}

// TestNeverGoodConfigMapIsWaitedFor shows that a mesh whose configuration cannot be read does not
// start with the defaults.
func TestNeverGoodConfigMapIsWaitedFor(t *testing.T) {
	a, r := startWith(t, "")
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "a: b: c"}), mesh.Event{Op: mesh.Synced})
	notYet := func(e mesh.Event) bool {
		if e.Op == mesh.Synced {
			t.Error("in sync without a mesh configuration")
		}
		return isProblem(e)
	}
	r.next(notYet)
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "connectTimeout: soon"}))
	r.next(notYet)
	a.sendEvents(t, configMap(t, "istio", map[string]string{"mesh": "trustDomain: one.example"}))
	r.next(isMesh)
	r.next(func(e mesh.Event) bool { return e.Op == mesh.Synced })
}

// TestNoConfigMap shows that without one the defaults are in force at once.
func TestNoConfigMap(t *testing.T) {
	a, r := startWith(t, "")
	a.sendEvents(t, mesh.Event{Op: mesh.Synced})
	r.next(func(e mesh.Event) bool {
		if isMesh(e) {
			t.Errorf("settings %v", e.Settings)
		}
		return e.Op == mesh.Synced
	})
}

func TestConfigMapNames(t *testing.T) {
	for _, c := range []struct{ revision, shared, want string }{
		{"", "", "istio"},
		{"default", "istio", "istio"},
		{"canary", "", "istio-canary"},
		{"canary", "istio", "istio-canary istio"},
	} {
		if got := strings.Join(NewConfigMaps("istio-system", c.revision, c.shared).Names(), " "); got != c.want {
			t.Errorf("revision %q, shared %q: %s, want %s", c.revision, c.shared, got, c.want)
		}
	}
}
