package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Conformance is a server of a platform, as [RunConformance] reads and changes it.
type Conformance struct {
	// Address is the address of the server, host:port. It has no services.
	Address string
	// Open returns a Platform that reads the server at another address, that of a proxy of the suite.
	Open func(address string) adapter.Platform
	// Register registers an instance of a service at an IP address, or replaces the instance. The first label of
	// the host is the name of the service.
	Register func(service, id, address string)
	// Deregister removes an instance.
	Deregister func(service, id string)
}

// RunConformance runs the suite that every platform must pass on its server: sync, upsert, delete, rename, flap,
// a restart of the control plane, errors, a slow server, and garbage from the server. The parts depend on each
// other.
func RunConformance(t *testing.T, c Conformance) {
	t.Helper()
	s := &conformance{Conformance: c, link: newLink(t, c.Address), stop: func() {}}
	defer func() { s.stop() }()
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"sync", s.testSync},
		{"upsert", s.testUpsert},
		{"delete", s.testDelete},
		{"rename", s.testRename},
		{"flap", s.testFlap},
		{"restart", s.testRestart},
		{"an error keeps the last good state", s.testError},
		{"slow server", s.testSlow},
		{"garbage from the server", s.testGarbage},
	} {
		if !t.Run(part.name, part.run) {
			return
		}
	}
}

// conformance is the suite with the state of the platform under test.
type conformance struct {
	Conformance

	link     *link
	follower *adapter.Follower
	stop     func()

	mu       sync.Mutex
	services map[adapter.ServiceKey]adapter.Service
	seen     []string // the descriptions of all states, the newest last
}

// start runs a new platform, as the control plane does.
func (s *conformance) start() {
	s.mu.Lock()
	s.services, s.seen = map[adapter.ServiceKey]adapter.Service{}, nil
	s.mu.Unlock()
	s.follower = adapter.NewFollower(s.Open(s.link.address()),
		adapter.FollowOptions{Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond}, s.apply)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.follower.Run(ctx) }()
	s.stop = func() { cancel(); <-done }
}

// apply is the callback of the Follower.
func (s *conformance) apply(c adapter.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range c.Set {
		s.services[x.ServiceKey] = x
	}
	for _, k := range c.Deleted {
		delete(s.services, k)
	}
	s.seen = append(s.seen, s.describe())
}

// describe returns the addresses of healthy instances: "api: 192.0.2.3; web: 192.0.2.1 192.0.2.2". s.mu must be
// held.
func (s *conformance) describe() string {
	var lines []string
	for _, k := range slices.SortedFunc(maps.Keys(s.services), adapter.ServiceKey.Compare) {
		x := s.services[k]
		var addresses []string
		for _, i := range x.Instances {
			if i.Health == adapter.Healthy {
				addresses = append(addresses, i.Address)
			}
		}
		slices.Sort(addresses)
		if name, _, _ := strings.Cut(x.Hosts[0], "."); len(addresses) > 0 {
			lines = append(lines, name+": "+strings.Join(addresses, " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// await waits until the platform is synced and the services are as described.
func (s *conformance) await(t *testing.T, want string) {
	t.Helper()
	serving.Eventually(t, patience, want, func() error {
		s.mu.Lock()
		got := s.describe()
		s.mu.Unlock()
		if status := s.follower.Status(); got != want || !status.Synced {
			return fmt.Errorf("%q, %+v", got, status)
		}
		return nil
	})
}

// fault puts the link into a mode and waits until the platform cannot be read. It returns a function that ends
// the fault, and fails the test if a state between was another.
func (s *conformance) fault(t *testing.T, mode linkMode) (end func(want string)) {
	t.Helper()
	s.mu.Lock()
	before, from := s.describe(), len(s.seen)
	s.mu.Unlock()
	s.link.set(mode)
	serving.Eventually(t, patience, "a failure", func() error {
		if s.follower.Status().Synced {
			return errors.New("the platform is synced")
		}
		return nil
	})
	return func(want string) {
		t.Helper()
		s.link.set(forward)
		s.await(t, want)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, got := range s.seen[from:] {
			if got != before && got != want {
				t.Errorf("the services were %q after the fault, want %q and then %q", got, before, want)
			}
		}
	}
}

func (s *conformance) testSync(t *testing.T) {
	s.Register("web", "a", "192.0.2.1")
	s.Register("web", "b", "192.0.2.2")
	s.Register("api", "c", "192.0.2.3")
	s.start()
	s.await(t, "api: 192.0.2.3; web: 192.0.2.1 192.0.2.2")
}

func (s *conformance) testUpsert(t *testing.T) {
	s.Register("web", "d", "192.0.2.4")
	s.await(t, "api: 192.0.2.3; web: 192.0.2.1 192.0.2.2 192.0.2.4")
	s.Register("web", "a", "192.0.2.11")
	s.await(t, "api: 192.0.2.3; web: 192.0.2.11 192.0.2.2 192.0.2.4")
	s.Register("new", "e", "192.0.2.5")
	s.await(t, "api: 192.0.2.3; new: 192.0.2.5; web: 192.0.2.11 192.0.2.2 192.0.2.4")
}

func (s *conformance) testDelete(t *testing.T) {
	s.Deregister("web", "b")
	s.await(t, "api: 192.0.2.3; new: 192.0.2.5; web: 192.0.2.11 192.0.2.4")
	s.Deregister("api", "c")
	s.await(t, "new: 192.0.2.5; web: 192.0.2.11 192.0.2.4")
}

func (s *conformance) testRename(t *testing.T) {
	s.Deregister("new", "e")
	s.Register("renamed", "e", "192.0.2.5")
	s.await(t, "renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4")
}

func (s *conformance) testFlap(t *testing.T) {
	for range 5 {
		s.Deregister("web", "d")
		s.Register("web", "d", "192.0.2.4")
		s.Deregister("renamed", "e")
		s.Register("renamed", "e", "192.0.2.5")
	}
	s.Register("web", "f", "192.0.2.6") // follows all others
	s.await(t, "renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4 192.0.2.6")
}

func (s *conformance) testRestart(t *testing.T) {
	s.stop()
	s.Deregister("web", "f")
	s.Register("web", "g", "192.0.2.7")
	s.start()
	s.await(t, "renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4 192.0.2.7")
}

func (s *conformance) testError(t *testing.T) {
	end := s.fault(t, refuse)
	s.Register("web", "h", "192.0.2.8")
	end("renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4 192.0.2.7 192.0.2.8")
	s.Deregister("web", "g")
	s.await(t, "renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4 192.0.2.8")
}

func (s *conformance) testSlow(t *testing.T) {
	s.link.set(delay)
	s.Register("web", "i", "192.0.2.9")
	s.await(t, "renamed: 192.0.2.5; web: 192.0.2.11 192.0.2.4 192.0.2.8 192.0.2.9")
	s.Deregister("renamed", "e")
	s.await(t, "web: 192.0.2.11 192.0.2.4 192.0.2.8 192.0.2.9")
	s.link.set(forward)
}

func (s *conformance) testGarbage(t *testing.T) {
	end := s.fault(t, garble)
	end("web: 192.0.2.11 192.0.2.4 192.0.2.8 192.0.2.9")
	s.Deregister("web", "i")
	s.await(t, "web: 192.0.2.11 192.0.2.4 192.0.2.8")
}
