package platform_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/platform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// fake is a platform whose services a test sets.
type fake struct {
	mu       sync.Mutex
	services map[adapter.ServiceKey]adapter.Service
	sink     adapter.Sink // of the running Watch
	fail     chan error
}

func newFake() *fake {
	return &fake{services: map[adapter.ServiceKey]adapter.Service{}, fail: make(chan error)}
}

// Watch implements adapter.Platform.
func (f *fake) Watch(ctx context.Context, sink adapter.Sink) error {
	f.mu.Lock()
	for _, s := range f.services {
		sink.Set(s)
	}
	sink.Synced()
	f.sink = sink
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.fail:
		return err
	}
}

func (f *fake) set(s adapter.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[s.ServiceKey] = s
	if f.sink != nil {
		f.sink.Set(s)
	}
}

func (f *fake) remove(k adapter.ServiceKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.services, k)
	if f.sink != nil {
		f.sink.Delete(k)
	}
}

// converted is a Registry followed by the converter of ServiceEntries, as in the control plane.
type converted struct{ registry.Registry }

// Run implements registry.Registry.
func (c converted) Run(ctx context.Context, out chan<- mesh.Batch) error {
	entries := serviceentry.New(serviceentry.Options{})
	between, done := make(chan mesh.Batch), make(chan error, 1)
	go func() { done <- c.Registry.Run(ctx, between) }()
	for {
		select {
		case err := <-done:
			return err
		case batch := <-between:
			if batch = entries.Convert(batch); len(batch) == 0 {
				continue
			}
			select {
			case out <- batch:
			case <-ctx.Done():
			}
		}
	}
}

// apply applies the events of the conformance suite to a fake platform. Services are in the spec of
// objects, whose keys are those of their ServiceEntries.
func (f *fake) apply(batch mesh.Batch) {
	for _, e := range batch {
		switch {
		case e.Service != nil: // the suite's marker
			f.set(adapter.Service{
				ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "marker"}, Hosts: []string{string(e.Service.Host)},
				Ports: []adapter.Port{{Name: "x", Number: 1}}, Created: e.Service.Created,
			})
		case e.Config == nil || e.Problems != nil:
		case e.Op == mesh.Delete:
			f.remove(adapter.ServiceKey{Namespace: e.Config.Namespace, Name: strings.TrimPrefix(e.Config.Name, "test-")})
		default:
			f.set(e.Config.Spec.(adapter.Service))
		}
	}
}

func web() adapter.Service {
	return adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "web"}, Hosts: []string{"web.example"},
		Ports: []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}},
		Instances: []adapter.Instance{
			{ID: "web-1", Address: "192.0.2.1", Ports: map[string]uint32{"http": 8080}, ServiceAccount: "web"},
			{ID: "web-2", Address: "192.0.2.2"},
		},
	}
}

func db() adapter.Service {
	return adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "db"}, Hosts: []string{"db.example", "database.example"},
		Ports:     []adapter.Port{{Name: "tcp", Number: 5432, Protocol: "TCP"}},
		Addresses: []string{"198.51.100.1"}, External: true,
		Instances: []adapter.Instance{{ID: "db-1", Address: "db-1.example"}},
	}
}

// instances returns n instances.
func instances(n int) []adapter.Instance {
	list := make([]adapter.Instance, n)
	for i := range list {
		list[i] = adapter.Instance{ID: fmt.Sprintf("%05d", i), Address: fmt.Sprintf("198.18.%d.%d", i>>8, i&255)}
	}
	return list
}

// event returns the event of a service with the edits.
func event(t *testing.T, s adapter.Service, edits ...func(*adapter.Service)) mesh.Event {
	t.Helper()
	s.Instances, s.Hosts, s.Ports = slices.Clone(s.Instances), slices.Clone(s.Hosts), slices.Clone(s.Ports)
	for _, edit := range edits {
		edit(&s)
	}
	key := config.Key{Kind: api.ServiceEntry, Namespace: s.Namespace, Name: adapter.EntryName("test", s.Name)}
	c, err := config.New(config.Meta{Key: key}, s)
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Event{Config: c}
}

func TestConformance(t *testing.T) {
	conform.Run(t, conform.Fixture{
		Start: conform.Registry(func() (registry.Registry, func(mesh.Batch)) {
			f := newFake()
			started := false
			return converted{platform.New(f, platform.Options{Platform: "test"})}, func(batch mesh.Batch) {
				if started {
					go f.apply(batch) // blocks until the suite receives the events
				} else {
					started = true
					f.apply(batch)
				}
			}
		}),
		Objects: mesh.Batch{event(t, web()), event(t, db())},
		Changed: mesh.Batch{
			event(t, web(), func(s *adapter.Service) { s.Instances[0].Address = "192.0.2.9" }),
			event(t, web(), func(s *adapter.Service) { s.Instances[0].Health = adapter.Unhealthy }),
			event(t, web(), func(s *adapter.Service) { s.Instances[0].Locality = "r/z" }),
			event(t, web(), func(s *adapter.Service) { s.Instances = s.Instances[:1] }),
			event(t, web(), func(s *adapter.Service) { s.Hosts[0] = "other.example" }),
			event(t, db(), func(s *adapter.Service) { s.Hosts = s.Hosts[:1] }),
			event(t, db(), func(s *adapter.Service) { s.Ports[0].Number = 5433 }),
			event(t, db(), func(s *adapter.Service) { s.External = false }),
		},
		Same: mesh.Batch{
			event(t, web(), func(s *adapter.Service) { slices.Reverse(s.Instances) }),
			event(t, web(), func(s *adapter.Service) { s.Hosts[0] = "WEB.example." }),
		},
		Broken: mesh.Batch{
			event(t, web(), func(s *adapter.Service) { s.Instances[0].Address = "192.0.2" }),
			event(t, web(), func(s *adapter.Service) { s.Instances[0].Address = "" }),
			event(t, db(), func(s *adapter.Service) { s.Hosts[0] = "a b" }),
			event(t, db(), func(s *adapter.Service) { s.Addresses = []string{"x"} }),
		},
		Large: func(n int) mesh.Batch {
			return mesh.Batch{event(t, web(), func(s *adapter.Service) { s.Name, s.Instances = "large", instances(n) })}
		},
		Old:     event(t, web()),
		Renamed: event(t, web(), func(s *adapter.Service) { s.Name = "renamed" }),
	})
}

// running is a Registry that runs, with the objects and Problems that it emitted.
type running struct {
	*fake
	*platform.Registry
	objects  map[string]*networking.ServiceEntry
	problems map[string][]config.Problem
	batches  chan mesh.Batch
}

// start runs a Registry of the fake platform. It must be called within a synctest bubble.
func start(t *testing.T, f *fake, o platform.Options) *running {
	t.Helper()
	o.Platform, o.Address = "Test", "192.0.2.100"
	r := &running{
		fake: f, Registry: platform.New(f, o), batches: make(chan mesh.Batch, 100),
		objects: map[string]*networking.ServiceEntry{}, problems: map[string][]config.Problem{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, r.batches) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// receive applies what was emitted.
func (r *running) receive() {
	synctest.Wait()
	for {
		select {
		case batch := <-r.batches:
			for _, e := range batch {
				switch {
				case e.Problems != nil && len(e.Problems.List) == 0:
					delete(r.problems, e.Problems.Scope)
				case e.Problems != nil:
					r.problems[e.Problems.Scope] = e.Problems.List
				case e.Config != nil && e.Op == mesh.Delete:
					delete(r.objects, e.Config.Name)
				case e.Config != nil:
					r.objects[e.Config.Name] = config.Spec[*networking.ServiceEntry](e.Config)
				}
			}
		default:
			return
		}
	}
}

// TestServiceOfTenThousandInstances converts a service with more instances than one ServiceEntry
// can have endpoints.
func TestServiceOfTenThousandInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		large := web()
		large.Instances = instances(10_000)
		f.set(large)
		r := start(t, f, platform.Options{})
		r.receive()
		require := func(entries, endpoints int) {
			t.Helper()
			n := 0
			for _, o := range r.objects {
				n += len(o.GetEndpoints())
			}
			if len(r.objects) != entries || n != endpoints || len(r.problems) > 0 {
				t.Errorf("%d entries with %d endpoints, want %d with %d; problems %v", len(r.objects), n, entries, endpoints, r.problems)
			}
		}
		require(3, 10_000)
		large.Instances = large.Instances[:5000]
		f.set(large)
		r.receive()
		require(2, 5000)
		f.set(web())
		r.receive()
		require(1, 2)
		f.set(large)
		r.receive()
		require(2, 5000)
		f.remove(large.ServiceKey)
		r.receive()
		require(0, 0)
	})
}

func TestUnusableServiceKeepsItsLastEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(web())
		r := start(t, f, platform.Options{})
		r.receive()
		broken := web()
		broken.Hosts = []string{"10.0.0.1"}
		f.set(broken)
		r.receive()
		if len(r.objects["test-web"].GetEndpoints()) != 2 {
			t.Errorf("objects %v", r.objects)
		}
		list := r.problems["Test/192.0.2.100 default/web"]
		if len(list) != 3 || list[0].Field != "hosts[0]" || list[0].Severity != config.Error || list[0].Key.Name != "test-web" ||
			!strings.Contains(list[2].Reason, "last valid version") {
			t.Errorf("problems %+v", r.problems)
		}
		f.remove(broken.ServiceKey)
		r.receive()
		if len(r.objects)+len(r.problems) != 0 {
			t.Errorf("after the deletion: %v, %v", r.objects, r.problems)
		}
	})
}

func TestErrorsKeepEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := obs.NewMetrics()
		f := newFake()
		f.set(web())
		r := start(t, f, platform.Options{Metrics: &m.Platform})
		r.receive()
		gauges := func() (synced, held, services float64) {
			return testutil.ToFloat64(m.Platform.Synced.WithLabelValues("Test")), testutil.ToFloat64(m.Platform.Held.WithLabelValues("Test")),
				testutil.ToFloat64(m.Platform.Services.WithLabelValues("Test"))
		}
		if synced, _, services := gauges(); synced != 1 || services != 1 {
			t.Errorf("synced %v, %v services", synced, services)
		}
		f.services = map[adapter.ServiceKey]adapter.Service{} // the server restarts without data
		f.fail <- errors.New("connection reset")
		r.receive()
		list := r.problems["Test/192.0.2.100 default/"]
		if len(list) != 1 || !strings.Contains(list[0].Reason, "connection reset; the last known state stays in use") {
			t.Errorf("problems %+v", r.problems)
		}
		if synced, _, _ := gauges(); synced != 0 || testutil.ToFloat64(m.Platform.Failures.WithLabelValues("Test")) != 1 {
			t.Error("the failure is not in the metrics")
		}
		time.Sleep(time.Minute)
		r.receive()
		if synced, held, _ := gauges(); len(r.objects["test-web"].GetEndpoints()) != 2 || synced != 1 || held != 2 {
			t.Errorf("after an empty restart: %v, held %v", r.objects, held)
		}
		f.set(web())
		r.receive()
		if _, held, _ := gauges(); held != 0 || len(r.problems) != 0 {
			t.Errorf("after the registration: held %v, problems %v", held, r.problems)
		}
		f.remove(web().ServiceKey)
		r.receive()
		if len(r.objects) != 0 {
			t.Errorf("after the deregistration: %v", r.objects)
		}
	})
}

// TestHoldTime has a server lose one of two services. Its instances are removed after the time that
// Options has.
func TestHoldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(web())
		other := web()
		other.Name, other.Hosts = "other", []string{"other.example.com"}
		f.set(other)
		r := start(t, f, platform.Options{HoldTime: 90 * time.Second})
		r.receive()
		delete(f.services, other.ServiceKey)
		f.fail <- errors.New("connection reset")
		time.Sleep(time.Minute)
		r.receive()
		if r.objects["test-other"] == nil {
			t.Error("removed after a minute")
		}
		time.Sleep(time.Minute)
		r.receive()
		if r.objects["test-other"] != nil || r.objects["test-web"] == nil {
			t.Errorf("after two minutes: %v", r.objects)
		}
	})
}

// TestPanicKeepsEntries tests that a panic in Watch is an error.
func TestPanicKeepsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		first := true
		p := adapter.PlatformFunc(func(ctx context.Context, sink adapter.Sink) error {
			sink.Set(web())
			sink.Synced()
			if first {
				first = false
				panic("bug")
			}
			<-ctx.Done()
			return nil
		})
		r := platform.New(p, platform.Options{
			Platform: "Test", Recovery: recovery.New(recovery.Options{Count: func(string) { count++ }}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		out, done := make(chan mesh.Batch, 100), make(chan error, 1)
		go func() { done <- r.Run(ctx, out) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.Status(); count != 1 || !s.Synced || s.Failures != 1 || s.Services != 1 {
			t.Errorf("%d panics counted, status %+v", count, s)
		}
		cancel()
		<-done
	})
}
