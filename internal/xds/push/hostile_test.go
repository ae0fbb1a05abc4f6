package push_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// siege connects honest proxies and hostile clients to one Pusher, and a reference proxy to another
// Pusher.
type siege struct {
	*fixture
	random    *rand.Rand
	honest    []*proxy
	slow      []int // number of steps between two answers of each honest proxy
	hostile   []*proxy
	reference *proxy
	edits     int
	// If determined, hostile clients accept nothing, and two of them have identities of their own.
	determined bool
}

// withSiege runs a test with some honest proxies, and hostile clients of the same class or of other
// classes.
func withSiege(t *testing.T, seed uint64, test func(*siege)) {
	t.Helper()
	inBubble(t, 2, push.Options{}, func(f *fixture) {
		s := &siege{fixture: f, random: rand.New(rand.NewPCG(seed, 1)), determined: seed%2 == 0}
		calm := push.New(
			push.Options{Generators: new(pushtest.Generators).Table(), Logger: slog.New(slog.DiscardHandler)},
		)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { calm.Run(ctx); close(done) }()
		calm.Publish(f.mesh.Current(), everything())
		f.mesh.Publish = func(s *snapshot.Snapshot, d snapshot.Delta) {
			f.p.Publish(s, d)
			calm.Publish(s, d)
		}
		f.settle()
		undisturbed := &fixture{t: t, p: calm}
		s.reference = undisturbed.connect(pushtest.Proxy(99, "default"))
		for i := range 1 + s.random.IntN(3) {
			s.honest = append(
				s.honest,
				f.connect(pushtest.Identified(pushtest.Proxy(i, "default"), fmt.Sprint("honest", s.random.IntN(2)))),
			)
			s.slow = append(s.slow, 1+s.random.IntN(15))
		}
		for i := range 2 + s.random.IntN(4) {
			s.hostile = append(s.hostile, f.connect(s.attacker(i)))
		}
		test(s)
		cancel()
		<-done
	})
}

// attacker returns a client without an identity, with its own identity or with that of an honest
// proxy. Its class is that of the honest proxies or its own.
func (s *siege) attacker(i int) *mesh.Proxy {
	identity := []string{"", fmt.Sprint("evil", i), fmt.Sprint("evil", i), "honest0"}[s.random.IntN(4)]
	if s.determined && i < 2 {
		return pushtest.Identified(pushtest.Proxy(10+i, "default"), fmt.Sprint("evil", i))
	}
	who := pushtest.Identified(pushtest.Proxy(10+i, "default"), identity)
	if s.random.IntN(4) == 0 {
		who.DNSDomain = "evil.example.com"
	}
	return who
}

// change edits the routes, or an EnvoyFilter.
func (s *siege) change() {
	s.edits++
	filter := pushtest.EnvoyFilter{Name: "filter", Edit: s.edits}
	switch s.random.IntN(4) {
	case 0:
		filter.Routes = true
		filter.Name = "routes"
	case 1:
		filter.Protects = true
		filter.Name = "guard"
	case 2:
		s.mesh.EditRoutes()
		return
	}
	s.mesh.SetEnvoyFilter(filter)
}

// attack makes a hostile client refuse everything, acknowledge everything, stay silent or
// reconnect.
func (s *siege) attack(i int) {
	x := s.hostile[i]
	x.took = nil
	switch n := s.random.IntN(10); {
	case n == 0 && !s.determined:
		x.nak = ""
		x.read()
	case n == 1:
	case n == 2:
		x.c.Close()
		s.hostile[i] = s.join(s.attacker(i), "LDS RDS")
	case s.determined:
		x.nak = "LDS RDS"
		x.read()
	default:
		x.nak = []string{"LDS", "RDS", "LDS RDS"}[s.random.IntN(3)]
		x.read()
	}
}

// step lets all clients act once and advances the clock by half a second, n times.
func (s *siege) step(n int) {
	for i := range s.hostile {
		s.attack(i)
	}
	for i, x := range s.honest {
		if n%s.slow[i] == 0 {
			x.read()
		}
	}
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
}

// behind returns how an honest proxy differs from the reference proxy, or "".
func (s *siege) behind() string {
	s.reference.read()
	for _, x := range s.honest {
		for _, typeURL := range []string{api.ListenerType, api.RouteType} {
			if d := cmp.Diff(s.reference.has[typeURL], x.has[typeURL]); d != "" {
				return fmt.Sprintf("%s %s (-want +got):\n%s", x.c.ID(), api.ShortType(typeURL), d)
			}
		}
	}
	return ""
}

// TestHostileClientsDelayOthersBriefly: whatever k hostile clients among n do, with or without
// identities, every honest proxy has the newest configuration within a bounded time and keeps it.
func TestHostileClientsDelayOthersBriefly(t *testing.T) {
	for seed := range uint64(longtest.Rounds(10, 150)) {
		withSiege(t, seed, func(s *siege) {
			for n := range 20 {
				if s.random.IntN(3) == 0 {
					s.change()
				}
				s.step(n)
			}
			const bound = 30 * 60 * 2 // half seconds
			n := 0
			for s.behind() != "" {
				if s.step(n); n == bound {
					t.Fatalf("seed %d: after half an hour: %s", seed, s.behind())
				}
				n++
			}
			for n := range 30 {
				s.step(n)
			}
			if d := s.behind(); d != "" {
				t.Errorf("seed %d: an honest proxy lost configuration that it had accepted: %s", seed, d)
			}
		})
	}
}
