package adaptertest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// service returns a service with an instance.
func service(name string) adapter.Service {
	return adapter.Service{
		ServiceKey: adapter.ServiceKey{Name: name}, Hosts: []string{name + ".example"},
		Ports:     []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}},
		Instances: []adapter.Instance{{ID: "1", Address: "192.0.2.1"}},
	}
}

// TestKitKeepsTheRules tests the Go package: with services, with ten thousand instances, and without any.
func TestKitKeepsTheRules(t *testing.T) {
	large := service("large")
	for i := range 10_000 - 1 {
		large.Instances = append(large.Instances, adapter.Instance{ID: fmt.Sprint("x", i), Address: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)})
	}
	for name, c := range map[string]struct {
		services []adapter.Service
		skipped  int
		detail   string
	}{
		"services": {[]adapter.Service{service("a"), service("b")}, 0, "2 services, 2 endpoints"},
		"large":    {[]adapter.Service{large}, 0, "3 services, 10000 endpoints"},
		"none":     {nil, 2, "0 services, 0 endpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := Target{Address: startAdapter(t, c.services...), Timeout: 30 * time.Second, Quiet: 50 * time.Millisecond}
			results := target.Run(t.Context())
			for _, r := range results {
				if r.Status != check.Pass && r.Status != check.Skip {
					t.Errorf("%s: %s", r.Check, r.Detail)
				}
			}
			if n := check.Count(results, check.Skip); n != c.skipped || !strings.HasPrefix(results[0].Detail, c.detail) {
				t.Errorf("%d rules are skipped, the first one found %q", n, results[0].Detail)
			}
		})
	}
}

// TestBrokenAdapters breaks each rule, and expects that this rule fails.
func TestBrokenAdapters(t *testing.T) {
	errBroken := errors.New("broken")
	isEntries := func(q *request) bool { return q.GetTypeUrl() == serviceEntries() }
	var down atomic.Bool
	var mu sync.Mutex
	broken := map[string]faults{
		"requests for ServiceEntries are answered": {request: func(q *request) (bool, error) { return !isEntries(q), nil }},
		"every resource is a valid object": {response: func(_ *request, r *response) {
			for _, x := range r.GetResources() {
				x.Resource.Value = append(x.Resource.Value, 0xff)
			}
		}},
		"resources have names, versions and nonces": {response: func(_ *request, r *response) {
			for _, x := range r.GetResources() {
				x.Version = ""
			}
		}},
		"both variants of xDS serve the same": {full: func(r *discoveryv3.DiscoveryResponse) { r.Resources = r.GetResources()[1:] }},
		"requests for other kinds are answered": {request: func(q *request) (bool, error) {
			return !strings.HasSuffix(q.GetTypeUrl(), "/Gateway"), nil
		}},
		"an acknowledged state is not repeated": {repeat: func(q *request) bool {
			return isEntries(q) && q.GetResponseNonce() != "" && q.GetErrorDetail() == nil
		}},
		"after a reconnect, nothing is sent that the client has": {request: func(q *request) (bool, error) {
			q.InitialResourceVersions = nil
			return true, nil
		}},
		"after a reconnect, other versions are replaced": {response: func(last *request, r *response) {
			if last.GetInitialResourceVersions() != nil {
				r.Resources = nil
			}
		}},
		"after a reconnect, deleted resources are removed": {response: func(_ *request, r *response) { r.RemovedResources = nil }},
		"a rejected response ends and repeats nothing": {request: func(q *request) (bool, error) {
			if q.GetErrorDetail() != nil {
				return false, errBroken
			}
			return true, nil
		}},
		"unknown types and nonces disturb nothing": {
			request: func(q *request) (bool, error) {
				if strings.HasPrefix(q.GetTypeUrl(), "example.com") {
					down.Store(true)
				}
				return true, nil
			},
			open: func() error {
				if down.Load() {
					return errBroken
				}
				return nil
			},
		},
	}
	// The slow client subscribes to every kind and acknowledges none; other rules acknowledge
	// before they continue. So the adapter of that rule stops after ten kinds without an
	// acknowledgement. The third stream is the one of the other client: it opens when the adapter
	// has stopped.
	var unacknowledged, streams atomic.Int64
	const stalled = 10
	broken["a slow client delays no other one"] = faults{
		request: func(q *request) (bool, error) {
			if q.GetResponseNonce() != "" {
				unacknowledged.Store(0)
			} else if !isEntries(q) && strings.Contains(q.GetTypeUrl(), "istio.io/") {
				unacknowledged.Add(1)
			}
			return unacknowledged.Load() < stalled, nil
		},
		open: func() error {
			for third := streams.Add(1) == 3; third && unacknowledged.Load() < stalled; {
				select {
				case <-t.Context().Done():
					return t.Context().Err()
				case <-time.After(time.Millisecond):
				}
			}
			return nil
		},
	}
	opened := 0
	broken["many clients are served"] = faults{open: func() error {
		mu.Lock()
		defer mu.Unlock()
		if opened++; opened > 40 {
			return errBroken
		}
		return nil
	}}
	address := startAdapter(t, service("a"), service("b"))
	for _, x := range rules() {
		t.Run(x.condition, func(t *testing.T) {
			t.Parallel()
			f, found := broken[x.condition]
			if !found {
				t.Fatal("no adapter breaks this rule")
			}
			target := Target{Address: startProxy(t, address, f), Timeout: 3 * time.Second, Quiet: 300 * time.Millisecond}
			results := target.checkRules(t.Context(), needed(x))
			if r := results[len(results)-1]; r.Status != check.Fail || r.Hint == "" || r.Detail == "" {
				t.Errorf("the result is %+v", r)
			}
		})
	}
}

// TestUnreachable skips every rule but the first one.
func TestUnreachable(t *testing.T) {
	target := Target{Address: "127.0.0.1:1", Timeout: 10 * time.Second}
	results := target.Run(t.Context())
	if check.Count(results, check.Fail) != 1 || check.Count(results, check.Skip) != len(results)-1 ||
		!strings.Contains(results[0].Detail, "connection refused") {
		t.Errorf("the results are %+v", results)
	}
}

// TestDocumentedRules finds each rule in docs/ADAPTERS.md.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../../../docs/ADAPTERS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rules() {
		if !strings.Contains(string(text), "| "+x.condition+" |") {
			t.Errorf("docs/ADAPTERS.md does not list %q", x.condition)
		}
	}
}

// needed returns the rules that must be checked to check x: the first one, which is required, and x.
func needed(x rule) []rule {
	if first := rules()[0]; first.condition != x.condition {
		return []rule{first, x}
	}
	return []rule{x}
}
