package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// adapterProcess is a running adapter.Run with its addresses.
type adapterProcess struct {
	address, metrics string
	end              func()
}

// startAdapter runs an adapter at an address, or at a free one if it is "", and waits until it
// listens.
func startAdapter(t *testing.T, address string, p adapter.Platform) *adapterProcess {
	t.Helper()
	metrics := testOptions(t, t.TempDir()).HTTPAddr
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- adapter.Run(ctx, p, adapter.Options{
			Platform: "Marathon", Address: address, MetricsAddress: metrics, Listening: func(a net.Addr) { listening <- a },
		})
	}()
	select {
	case err := <-done:
		cancel()
		t.Fatal(err)
		return nil
	case a := <-listening:
		ended := false
		end := func() {
			if cancel(); !ended {
				ended = true
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(end)
		return &adapterProcess{address: a.String(), metrics: metrics, end: end}
	}
}

// listing is a platform that reports services which a test replaces.
type listing struct {
	services atomic.Pointer[[]adapter.Service]
	changed  chan struct{}
	err      error
}

func newListing(services ...adapter.Service) *listing {
	l := &listing{changed: make(chan struct{}, 1)}
	l.services.Store(&services)
	return l
}

func (l *listing) set(services ...adapter.Service) {
	l.services.Store(&services)
	l.changed <- struct{}{}
}

// Watch implements adapter.Platform.
func (l *listing) Watch(ctx context.Context, sink adapter.Sink) error {
	if l.err != nil {
		return l.err
	}
	var before []adapter.Service
	for {
		services := *l.services.Load()
		for _, s := range services {
			sink.Set(s)
		}
		for _, old := range before {
			if len(services) < len(before) && old.Name != services[0].Name {
				sink.Delete(old.ServiceKey)
			}
		}
		before = services
		sink.Synced()
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}

func listed(name, address string) adapter.Service {
	return adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "ns", Name: name}, Hosts: []string{name + ".example.com"},
		Ports:     []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}},
		Instances: []adapter.Instance{{ID: "1", Address: address}},
	}
}

// shows returns a check that a page contains a text, or does not contain it if want is false.
func (c *controlPlane) shows(page, text string, want bool) func() error {
	return func() error {
		content, err := c.get(page)
		if err == nil && strings.Contains(content, text) != want {
			err = fmt.Errorf("%q on %s: %v", text, page, !want)
		}
		return err
	}
}

// TestReadsAnAdapter reads services from an adapter in both variants of the protocol, changes and
// deletes services, and restarts the adapter while its platform is unreachable.
func TestReadsAnAdapter(t *testing.T) {
	for _, mode := range []string{"sotw", "delta"} {
		t.Run(mode, func(t *testing.T) {
			platform := newListing(listed("one", "192.0.2.1"))
			process := startAdapter(t, "127.0.0.1:0", platform)
			c := startWith(t, map[string]string{
				".mesh": fmt.Sprintf("configSources: [{address: 'xds://%s?mode=%s'}]", process.address, mode),
			}, func(*Options) {})
			c.eventually("the first service", c.has("one.example.com", true))
			c.eventually("its provider", c.shows("/debug/endpointShardz", `"Marathon/Kubernetes"`, true))
			platform.set(listed("one", "192.0.2.9"), listed("two", "192.0.2.2"))
			c.eventually("another service", c.has("two.example.com", true))
			c.eventually("another address", c.shows("/debug/endpointShardz", "192.0.2.9", true))
			platform.set(listed("one", "192.0.2.9"))
			c.eventually("the second service is removed", c.has("two.example.com", false))

			process.end()
			down := newListing()
			down.err = errors.New("connection refused")
			again := startAdapter(t, process.address, down)
			c.eventually("the control plane reads the other types", func() error {
				page, err := serving.Page("http://" + again.metrics + "/metrics")
				if err == nil && (strings.Contains(page, "adapter_xds_responses_total 0") || !strings.Contains(page, "adapter_synced{")) {
					err = errors.New("the control plane is not connected")
				}
				return err
			})
			if _, err := serving.Page("http://" + again.metrics + "/ready"); err == nil {
				t.Error("an adapter is ready without its platform")
			}
			again.end()
			if err := c.has("one.example.com", true)(); err != nil {
				t.Error("the state is lost when the adapter starts while the platform is unreachable:", err)
			}
			startAdapter(t, process.address, newListing(listed("one", "192.0.2.9"), listed("three", "192.0.2.3")))
			c.eventually("the state after the restart", c.has("three.example.com", true))
			if err := c.has("one.example.com", true)(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReasonsOfWaitingSources starts with sources that cannot be read. The page of readiness has the reasons.
func TestReasonsOfWaitingSources(t *testing.T) {
	const source = "xds://127.0.0.1:1"
	c := launchWith(t, map[string]string{}, func(o *Options) {
		o.Registries = []string{"Eureka"}
		o.Platforms.Eureka.URLs = []string{"http://127.0.0.1:1/eureka"}
		o.MeshConfigFile = filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(o.MeshConfigFile, []byte("configSources: [{address: "+source+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{"Eureka/http://127.0.0.1:1/eureka: http://127.0.0.1:1/eureka: dial tcp", source + ": cannot be read: connection error"} {
		c.eventually(want, func() error {
			_, err := c.get("/ready")
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("ready: %w", err)
			}
			return nil
		})
	}
	c.eventually("the error of the source", c.shows("/api/v1/registries", `"name":"`+source+`","state":"waiting","error":"cannot be read`, true))
}

// TestReadsMockRegistry selects a platform that runs within the control plane.
func TestReadsMockRegistry(t *testing.T) {
	dir := t.TempDir()
	files := &controlPlane{t: t, dir: dir}
	files.write("web.yaml", `
name: web
namespace: shop
hosts: [web.example.com]
ports: [{name: http, number: 80, protocol: HTTP}]
instances: [{id: web-1, address: 192.0.2.1}]
`)
	c := startWith(t, map[string]string{}, func(o *Options) {
		o.Registries = []string{"Kubernetes", "Mock"}
		o.Platforms.Mock.Dir = dir
	})
	c.eventually("the provider of the service", c.shows("/debug/registryz", `"Mock"`, true))
	c.eventually("the provider of its endpoint", c.shows("/debug/endpointShardz", `"Mock/Kubernetes"`, true))
	c.eventually("the state of the registry", c.shows("/api/v1/registries", `"state":"synced"`, true))
	c.eventually("its services", c.shows("/api/v1/registries", `"services":1,"instances":1`, true))
	instances := make([]string, 10_000) // more than one ServiceEntry can have
	for i := range instances {
		instances[i] = fmt.Sprintf("{id: x%d, address: 198.18.%d.%d}", i, i>>8, i&255)
	}
	files.write("large.yaml", "name: large\nnamespace: shop\nhosts: [large.example.com]\nports: [{name: http, number: 80, protocol: HTTP}]\ninstances: ["+
		strings.Join(instances, ", ")+"]\n")
	c.eventually("ten thousand instances of one service", c.shows("/api/v1/registries", `"services":2,"instances":10001`, true))
	c.eventually("all of them are endpoints", func() error {
		page, err := c.get("/debug/endpointz?brief=")
		if n := strings.Count(page, "large.example.com:http 198.18."); err == nil && n != len(instances) {
			err = fmt.Errorf("%d endpoints", n)
		}
		return err
	})
	if err := c.shows("/debug/problemz", "large", false)(); err != nil {
		t.Error(err)
	}
	files.write("web.yaml", "name: [")
	c.eventually("the problem", c.shows("/metrics", `meshpilot_platform_problems{platform="Mock"} 2`, true))
	if err := c.has("web.example.com", true)(); err != nil {
		t.Error("an invalid file removed its services:", err)
	}
}
