package hostname

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nameServer is a DNS server whose answers the test sets.
type nameServer struct {
	mu      sync.Mutex
	names   map[string][]string
	failure error
	asked   int
}

func (s *nameServer) set(failure error, name string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.names = failure, map[string][]string{name: addresses}
}

func (s *nameServer) lookup(_ context.Context, name string) (list []netip.Addr, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.failure != nil {
		return nil, s.failure
	}
	for _, a := range s.names[name] {
		list = append(list, netip.MustParseAddr(a))
	}
	if list == nil {
		return nil, &net.DNSError{Name: name, IsNotFound: true, Err: "no such host"}
	}
	return list, nil
}

// heard is the accumulated state that a source has emitted.
type heard struct {
	t       *testing.T
	batches <-chan mesh.Batch
	names   map[string]string
	problem string
	synced  bool
}

// until applies events until the condition holds.
func (h *heard) until(what string, held func() bool) {
	h.t.Helper()
	limit := time.After(10 * time.Second)
	for !held() {
		select {
		case batch := <-h.batches:
			for _, e := range batch {
				h.recordEvent(e)
			}
		case <-limit:
			h.t.Fatalf("timed out waiting until %s: %+v", what, h)
		}
	}
}

func (h *heard) recordEvent(e mesh.Event) {
	switch {
	case e.Op == mesh.Synced:
		h.synced = true
	case e.Problems != nil:
		h.problem = ""
		for _, p := range e.Problems.List {
			h.problem = p.String()
		}
	case e.Op == mesh.Delete:
		delete(h.names, e.Resolved.Name)
	default:
		h.names[e.Resolved.Name] = strings.Join(e.Resolved.Addresses, " ")
	}
}

func start(t *testing.T, o Options) (*Source, *heard) {
	s, out := New(o), make(chan mesh.Batch)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return s, &heard{t: t, batches: out, names: map[string]string{}}
}

// TestLastGoodIsKept: addresses follow the name. If the name server fails, or the name does not
// exist any more, the addresses are kept and a Problem is reported.
func TestLastGoodIsKept(t *testing.T) {
	const name = "east.example.com"
	dns := new(nameServer)
	dns.set(nil, name, "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.1")
	failures := 0
	s, h := start(t, Options{Lookup: dns.lookup, Refresh: time.Millisecond, Failed: func() { failures++ }})
	s.SetFinalNames([]string{name})
	h.until("the name is resolved", func() bool { return h.synced && h.names[name] == "192.0.2.1 192.0.2.2" })
	dns.set(nil, name, "192.0.2.3", "2001:db8::1")
	h.until("the name has other addresses", func() bool { return h.names[name] == "192.0.2.3 2001:db8::1" })
	for _, tc := range []struct {
		failure error
		want    string
	}{
		{errors.New("broken"), "gateway of a network, east.example.com: cannot be resolved: its last addresses stay in use"},
		{&net.DNSError{IsTimeout: true}, "gateway of a network, east.example.com: no name server answers: its last addresses stay in use"},
		{&net.DNSError{IsNotFound: true}, "gateway of a network, east.example.com: there is no such name: its last addresses stay in use"},
	} {
		dns.set(tc.failure, name)
		h.until("the failure is reported", func() bool { return h.problem == tc.want })
		if diff := cmp.Diff(map[string]string{name: "192.0.2.3 2001:db8::1"}, h.names); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.failure, diff)
		}
		dns.set(nil, name, "192.0.2.3", "2001:db8::1")
		h.until("the problem is resolved", func() bool { return h.problem == "" })
	}
	if failures < 3 {
		t.Errorf("%d failures were counted", failures)
	}
}

// TestWanted: only wanted names are resolved, and the addresses of others are removed.
func TestWanted(t *testing.T) {
	dns := new(nameServer)
	dns.set(nil, "a.example.com", "192.0.2.1")
	s, h := start(t, Options{Lookup: dns.lookup, Refresh: time.Hour})
	s.SetNames([]string{"a.example.com", "gone.example.com"})
	h.until("one is resolved and the other not", func() bool { return len(h.names) == 1 && h.problem != "" })
	if want := "gateway of a network, gone.example.com: there is no such name: no endpoints are sent for its network"; h.problem != want {
		t.Errorf("problem = %q, want %q", h.problem, want)
	}
	s.SetNames(nil)
	h.until("nothing is left", func() bool { return len(h.names) == 0 && h.problem == "" })
	if h.synced {
		t.Error("it was in sync before it knew all names")
	}
	s.SetFinalNames(nil)
	h.until("it is in sync without names", func() bool { return h.synced })
}

// TestStartIsNotHeldUp: a name server that does not answer delays the start only for a short time.
func TestStartIsNotHeldUp(t *testing.T) {
	s, h := start(t, Options{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	s.SetFinalNames([]string{"east.example.com"})
	began := time.Now()
	h.until("it is in sync", func() bool { return h.synced })
	if took := time.Since(began); took < startTimeout/2 || took > 2*startTimeout {
		t.Errorf("in sync after %v", took)
	}
}
