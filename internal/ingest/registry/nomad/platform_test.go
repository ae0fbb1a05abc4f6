package nomad

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// testClock is the system's clock with an offset, whose timers are short.
type testClock struct{ offset atomic.Int64 }

func (c *testClock) Now() time.Time                       { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *testClock) After(time.Duration) <-chan time.Time { return time.After(10 * time.Millisecond) }

// follow runs a Platform of the agent.
func follow(t *testing.T, f *fakeAgent, c clock.Clock) *platform.Follower {
	t.Helper()
	return platform.Follow(t, newPlatform(t, f, c))
}

// newPlatform returns a Platform of the agent for two namespaces, whose first address does not
// answer.
func newPlatform(t *testing.T, f *fakeAgent, c clock.Clock) *Platform {
	t.Helper()
	server := httptest.NewUnstartedServer(f)
	server.Config.ConnState = f.countConnections
	server.Start()
	t.Cleanup(server.Close)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := DefaultSettings()
	settings.Addresses, settings.TokenFile = []string{down.URL, server.URL + "/"}, token
	settings.Namespaces = []string{"default", "prod"}
	p, err := New(settings, nil, c)
	if err != nil {
		t.Fatal(err)
	}
	p.streamTimeout = time.Second
	return p
}

func TestWatch(t *testing.T) {
	f := newFakeAgent()
	f.add("default", "a", typeRegistration)
	f.add("default", "b", typeRegistration)
	f.add("prod", "c", typeRegistration)
	follower := follow(t, f, &testClock{})
	follower.Await("web: a b; web: c")

	f.add("default", "d", typeRegistration)
	follower.Await("web: a b d; web: c")
	f.remove("a", typeDeregistration)
	follower.Await("web: b d; web: c")
	f.remove("b", "AllocationUpdated") // ended with its allocation
	follower.Await("web: c; web: d")
	f.remove("d", typeDeregistration)
	follower.Await("web: c")
	f.add("default", "e", typeRegistration)
	follower.Await("web: c; web: e")

	// Errors change nothing.
	unchanged := follower.Mark()
	f.edit(func() { f.status = http.StatusInternalServerError })
	follower.AwaitProblem("answered with status 500: No cluster leader")
	f.edit(func() { f.status, f.body = 0, "<html>" })
	follower.AwaitProblem("the registrations are not JSON of Nomad")
	f.edit(func() { f.body, f.silent = "", true })
	follower.AwaitProblem("no event and no heartbeat")
	f.edit(func() { f.silent, f.token = false, "other" })
	follower.AwaitProblem("the token may not read it")
	f.edit(func() { f.token = "secret" })
	follower.AwaitProblem("")
	unchanged()
}

// TestOneChangeIsOneQuery counts requests: an event is one query of its service.
func TestOneChangeIsOneQuery(t *testing.T) {
	f := newFakeAgent()
	f.add("default", "a", typeRegistration)
	follower := follow(t, f, &testClock{})
	follower.Await("web: a")
	// At the start everything is read, and once more after the first line of events.
	want := map[string]int{"/v1/services": 4, "/v1/service/web": 2}
	read := func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if diff := cmp.Diff(want, f.reads); diff != "" {
			return errors.New(diff)
		}
		return nil
	}
	serving.Eventually(t, 30*time.Second, "queries at the start", read)
	f.add("default", "b", typeRegistration)
	follower.Await("web: a b")
	f.remove("a", typeDeregistration)
	follower.Await("web: b")
	want["/v1/service/web"] += 2
	if err := read(); err != nil {
		t.Errorf("queries after two changes: %v", err)
	}
}

// TestDeniedNamespace takes the right to read one of two namespaces from the token.
func TestDeniedNamespace(t *testing.T) {
	f := newFakeAgent()
	f.add("default", "a", typeRegistration)
	f.add("prod", "b", typeRegistration)
	follower := follow(t, f, &testClock{})
	follower.Await("web: a; web: b")
	f.edit(func() { f.denied["prod"] = true })
	follower.AwaitProblem("namespace prod: the token may not read it")
	f.add("default", "c", typeRegistration)
	follower.Await("web: a c; web: b")
	f.edit(func() { delete(f.denied, "prod") })
	follower.AwaitProblem("")
	f.remove("b", typeDeregistration)
	follower.Await("web: a c")
}

// TestChangeWithoutEvent removes a registration without an event, which the next audit finds.
func TestChangeWithoutEvent(t *testing.T) {
	f := newFakeAgent()
	f.add("default", "a", typeRegistration)
	f.add("default", "b", typeRegistration)
	c := &testClock{}
	follower := follow(t, f, c)
	follower.Await("web: a b")
	f.add("default", "c", typeRegistration)
	follower.Await("web: a b c")
	unchanged := follower.Mark()
	f.remove("a", "")
	f.add("prod", "d", "") // a heartbeat, after which a would be missing
	unchanged()
	c.offset.Store(int64(auditPause))
	f.edit(func() {})
	follower.Await("web: b c; web: d")
}

// TestServersThatLostTheirData restart without one of two instances, with and without a lower
// index. Without it the instance was deregistered, and with it the instance is held.
func TestServersThatLostTheirData(t *testing.T) {
	f := newFakeAgent()
	for _, id := range []string{"a", "b", "c"} {
		f.add("default", id, typeRegistration)
	}
	p := newPlatform(t, f, &testClock{})
	follower := adapter.NewFollower(p, adapter.FollowOptions{Backoff: 10 * time.Millisecond}, func(adapter.Change) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follower.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	await := func(instances, held int) {
		t.Helper()
		serving.Eventually(t, 30*time.Second, "instances", func() error {
			if s := follower.Status(); !s.Synced || s.Instances != instances || s.Held != held {
				return fmt.Errorf("%+v, want %d instances, %d held", s, instances, held)
			}
			return nil
		})
	}
	await(3, 0)
	fail := func() {
		f.edit(func() { f.status = http.StatusBadGateway })
		serving.Eventually(t, 30*time.Second, "a failure", func() error {
			if follower.Status().Synced {
				return errors.New("synced")
			}
			return nil
		})
	}
	fail()
	f.remove("a", "")
	f.edit(func() { f.status = 0 })
	await(2, 0)
	fail()
	f.edit(func() {
		delete(f.registrations, "b")
		f.index, f.lines, f.status = 5, nil, 0
	})
	await(2, 1)
	f.add("default", "b", typeRegistration)
	await(2, 0)
}

// TestTLS reads from an agent that requires client certificates, by another name than that of its
// address.
func TestTLS(t *testing.T) {
	f := newFakeAgent()
	f.token = ""
	f.add("default", "a", typeRegistration)
	files := pki.NewFiles(t, "server.global.nomad")
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: files.CA.Pool(),
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	settings := DefaultSettings()
	settings.Addresses, settings.ServerName, settings.CAFile = []string{server.URL}, "server.global.nomad", files.CAFile
	settings.CertFile, settings.KeyFile = files.CertFile, files.KeyFile
	p, err := New(settings, nil, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	platform.Follow(t, p).Await("web: a")
	settings.ServerName = "other.nomad"
	if p, err = New(settings, nil, clock.System{}); err != nil {
		t.Fatal(err)
	}
	platform.Follow(t, p).AwaitProblem("certificate is valid for server.global.nomad")
}

func TestSettings(t *testing.T) {
	for want, edit := range map[string]func(*Settings){
		"":                                     func(*Settings) {},
		"--nomadAddresses: must name an agent": func(s *Settings) { s.Addresses = nil },
		"--nomadNamespaces: must name a namespace":             func(s *Settings) { s.Namespaces = nil },
		`--nomadNamespaces "*": want names of namespaces`:      func(s *Settings) { s.Namespaces = []string{"*"} },
		`--nomadNamespaces "a": is named twice`:                func(s *Settings) { s.Namespaces = []string{"a", "a"} },
		"--nomadCertFile, --nomadKeyFile: one needs the other": func(s *Settings) { s.CertFile = "x" },
		`--nomadAddresses "http://h/path": want http://host:port or https://host:port`: func(s *Settings) {
			s.Addresses = []string{"http://h/path"}
		},
	} {
		s := DefaultSettings()
		s.Addresses = []string{"http://127.0.0.1:4646"}
		edit(&s)
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLostData lets servers lose data, in two ways, and restart without losing any.
func TestLostData(t *testing.T) {
	web := func(index uint64, ids ...string) *listing {
		s := &service{index: index, instances: map[string]registration{}}
		for i, id := range ids {
			s.instances[strings.TrimSuffix(id, "'")] = registration{ID: id, CreateIndex: uint64(i + 1)}
			if strings.HasSuffix(id, "'") {
				s.instances[strings.TrimSuffix(id, "'")] = registration{ID: id, CreateIndex: index}
			}
		}
		return &listing{index: index, highest: index, services: map[string]*service{"web": s}}
	}
	s := &scope{namespace: "default"}
	for _, x := range []struct {
		last, next *listing
		want       string
	}{
		{nil, web(10, "a"), ""},
		{web(10, "a", "b"), web(10, "a", "b"), ""},
		{web(10, "a", "b"), web(12, "a"), ""},
		{web(10), web(12, "c"), ""},
		{web(10, "a", "b"), web(9, "a", "b"), "namespace default: index 9 is lower than 10 before"},
		{web(10, "a", "b"), web(1), "namespace default: index 1 is lower than 10 before"},
		{web(10, "a", "b"), web(12, "c"), "namespace default: none of the known registrations is listed"},
		{web(10, "a", "b"), web(12, "a'", "b'"), "namespace default: none of the known registrations is listed"},
	} {
		s.last = x.last
		got := ""
		if err := s.mayHaveLost(x.next); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	l := web(10, "a")
	l.services["other"] = &service{index: 15}
	got := l.changed([]event{{10, "web"}, {11, "web"}, {12, "web"}, {15, "other"}, {9, "new"}, {11, "newer"}})
	if want := []string{"newer", "web"}; !slices.Equal(got, want) {
		t.Errorf("changed services %v, want %v", got, want)
	}
}
