package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// replicas are control planes behind a load balancer that assigns each new connection to any of
// them.
type replicas struct {
	list []*Server
	rand *rand.Rand
	now  time.Time
	all  int
	// moved is the number of closed connections, and most the maximum in one second.
	moved, most int
}

func newReplicas(e Rebalance, counts ...int) *replicas {
	r := &replicas{rand: rand.New(rand.NewPCG(1, 2)), now: time.Now()}
	for _, n := range counts {
		s := New(Options{Rebalance: e})
		r.list = append(r.list, s)
		for range n {
			r.connect(s)
		}
	}
	return r
}

func (r *replicas) connect(s *Server) {
	r.all++
	x := &session{s: s, link: &link{peer: fmt.Sprintf("10.0.0.1:%d", r.all), since: r.now}}
	x.end = func(error) {
		delete(s.sessions, x)
		r.moved++
		r.connect(r.list[r.rand.IntN(len(r.list))])
	}
	s.sessions[x] = struct{}{}
}

func (r *replicas) run(d time.Duration) []int {
	owed := make([]float64, len(r.list))
	for end := r.now.Add(d); r.now.Before(end); {
		r.now = r.now.Add(time.Second)
		for i, s := range r.list {
			before := r.moved
			owed[i] = s.closeDueConnections(r.now, owed[i])
			r.most = max(r.most, r.moved-before)
		}
	}
	var counts []int
	for _, s := range r.list {
		counts = append(counts, len(s.sessions))
	}
	return counts
}

// TestSharesMakeReplicasEven starts with the state after a rolling restart, in which the replica
// that started last has no connections, and checks that HourlyShare balances them.
func TestSharesMakeReplicasEven(t *testing.T) {
	r := newReplicas(Rebalance{HourlyShare: 2}, 240, 120, 0)
	counts := r.run(time.Hour)
	if least, most := slices.Min(counts), slices.Max(counts); most > 150 || least < 90 {
		t.Errorf("after an hour the replicas have %v connections, want about 120 each", counts)
	}
	if want := 2 * 360; r.moved < want*9/10 || r.moved > want*11/10 || r.most > 1 {
		t.Errorf("%d connections were moved, at most %d in a second, want about %d, one by one", r.moved, r.most, want)
	}
}

// TestAgeIsSpread checks that connections that were opened at the same time are not closed at the
// same time when they reach their maximum age.
func TestAgeIsSpread(t *testing.T) {
	r := newReplicas(Rebalance{MaxAge: 30 * time.Minute}, 300)
	if r.run(26 * time.Minute); r.moved != 0 {
		t.Errorf("%d connections were closed before their maximum age", r.moved)
	}
	r.run(2 * time.Minute)
	early := r.moved
	if r.run(6 * time.Minute); r.moved != 300 || early < 20 || early > 120 {
		t.Errorf("%d of %d connections were closed in the first third of the time", early, r.moved)
	}
	if r.most > closingRate {
		t.Errorf("%d were closed in a second", r.most)
	}
}

func TestClosingHasALimit(t *testing.T) {
	r := newReplicas(Rebalance{HourlyShare: 3600}, 500) // all of them each second
	r.run(10 * time.Second)
	if r.moved != 10*closingRate {
		t.Errorf("%d were closed in ten seconds, want %d", r.moved, 10*closingRate)
	}
	quiet := newReplicas(Rebalance{}, 500)
	if quiet.run(time.Hour); quiet.moved != 0 {
		t.Errorf("%d connections were closed although rebalancing is disabled", quiet.moved)
	}
}

// TestMovedConnection checks what a client sees when its connection is moved: no response is cut
// off, its streams end with a retryable status, and the connection is closed, so that the client
// may reach another replica.
func TestMovedConnection(t *testing.T) {
	h := serve(t, 3, Options{Rebalance: Rebalance{MaxAge: time.Hour}})
	conn := h.dial()
	a, b := open(t, conn, stream.Delta, testNode(1)), open(t, conn, stream.SotW, testNode(2))
	a.start()
	b.start()
	bare := dialRaw(t, h.addr, 64<<10)
	defer bare.Close()
	bare.start(t, testNode(3))
	later := time.Now().Add(2 * time.Hour)
	h.wait("nothing is being written", func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		_, idle := h.server.openLinks()
		return len(idle) == 2
	})
	h.server.closeDueConnections(later, 0)
	for _, c := range []*client{a, b} {
		if err := c.wantEnd(); status.Code(err) != codes.Unavailable || err.Error() != errRebalanced.Error() {
			t.Errorf("the stream ended with %v", err)
		}
	}
	if err := bare.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, bare); err != nil {
		t.Errorf("the connection was not closed gracefully: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn.WaitForStateChange(ctx, connectivity.Ready)
	again := open(t, conn, stream.Delta, testNode(1)) // on a new connection
	again.start()
	if n := len(h.server.Connections()); n != 1 {
		t.Errorf("%d streams are left, want the new one", n)
	}
}

// TestBusyConnectionsAreNotMoved: a connection is not moved while a response is being written to
// it.
func TestBusyConnectionsAreNotMoved(t *testing.T) {
	h := serve(t, 5000, Options{Rebalance: Rebalance{MaxAge: time.Hour}})
	slow := dialRaw(t, h.addr, 64<<10)
	defer slow.Close()
	slow.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: testNode(2)})
	busy := func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		n, idle := h.server.openLinks()
		return n == 1 && len(idle) == 0
	}
	h.wait("a response is being written", busy)
	h.server.closeDueConnections(time.Now().Add(2*time.Hour), 0)
	if m := slow.receive(t); len(m.Resources) < 5000 {
		t.Errorf("%d resources arrived", len(m.Resources))
	}
	h.wait("the response is written", func() bool { return !busy() })
	h.server.closeDueConnections(time.Now().Add(2*time.Hour), 0)
	h.wait("the connection is moved", func() bool { return len(h.server.Connections()) == 0 })
}

func TestRunMovesConnections(t *testing.T) {
	t.Parallel()
	h := serve(t, 1, Options{Rebalance: Rebalance{HourlyShare: 3600 * closingRate}})
	c := h.connect(stream.Delta, testNode(1))
	c.start()
	done := make(chan struct{})
	go func() { h.server.Run(t.Context()); close(done) }()
	if err := c.wantEnd(); err.Error() != errRebalanced.Error() {
		t.Errorf("the stream ended with %v", err)
	}
	t.Cleanup(func() { <-done })
}
