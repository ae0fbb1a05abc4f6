package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one cluster for all tests of a package: it is started by the first test that needs it,
// and stopped after the last.
//
//	var shared = cluster.NewShared(cluster.Options{IstioKinds: true})
//
//	func TestMain(m *testing.M) { os.Exit(shared.Around(m).Run()) } // or goleak.VerifyTestMain(shared.Around(m))
//
//	func TestSomething(t *testing.T) {
//		c := shared.Start(t)
type Shared struct {
	once func() (*Cluster, error)
	mu   sync.Mutex
	up   *Cluster
}

// NewShared returns a cluster that is not started yet. It starts nothing.
func NewShared(o Options) *Shared {
	s := &Shared{}
	s.once = sync.OnceValues(func() (*Cluster, error) {
		if o.Output == nil {
			o.Output = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
		}
		// Not a test's context: the cluster outlives the first test.
		c, err := Up(context.Background(), o)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.up = c
		return c, err
	})
	return s
}

// Start returns the cluster. The test fails if it does not come up.
func (s *Shared) Start(t testing.TB) *Cluster {
	t.Helper()
	c, err := s.once()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Tests is a testing.M.
type Tests interface{ Run() int }

// Around returns an M that stops the cluster after the tests.
func (s *Shared) Around(m Tests) Tests { return around{s, m} }

type around struct {
	shared *Shared
	tests  Tests
}

// Run runs the tests and returns their exit code.
func (a around) Run() int {
	code := a.tests.Run()
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	if a.shared.up == nil {
		return code
	}
	if err := a.shared.up.Down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// RequireNode skips a test if this machine cannot run a node, and names what is missing. With
// CI=true in the environment it fails the test instead: there a skipped test must not look like a
// passed one.
func RequireNode(t testing.TB) {
	t.Helper()
	err := errNotRoot
	if os.Geteuid() == 0 {
		err = missingTools()
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}
