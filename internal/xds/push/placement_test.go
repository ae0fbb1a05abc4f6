package push_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
)

func TestReturningProxyReusesItsClass(t *testing.T) {
	inBubble(t, 10, push.Options{}, func(f *fixture) {
		f.connect(pushtest.Proxy(0, "default")).c.Close()
		before := f.calls()
		f.mesh.SetEndpoints("s1", "10.2.0.1")
		f.settle()
		f.wantCalls(before, 0, 0, 0, 0) // no class needs it now
		x := f.connect(pushtest.Proxy(1, "default"))
		f.wantCalls(before, 0, 1, 0, 0)
		if fresh := f.connect(pushtest.Proxy(2, "default")); !cmp.Equal(fresh.has, x.has) {
			t.Error("the remaining classes are out of date")
		}
	})
}

func TestClassesWithoutClientsAreDropped(t *testing.T) {
	inBubble(t, 10, push.Options{}, func(f *fixture) {
		f.connect(pushtest.Proxy(0, "default")).c.Close()
		if s := f.p.Reports().Stats(); s.Classes != 0 || s.Producers != 0 {
			t.Errorf("without clients there are %d classes and %d running producers, want none", s.Classes, s.Producers)
		}
		time.Sleep(2 * time.Minute)
		before := f.calls()
		f.connect(pushtest.Proxy(1, "default"))
		f.wantCalls(before, 1, 10, 1, 1)
	})
}

// TestRandomConnectsAndChanges: after random changes while proxies connect, disconnect and change
// class, each proxy has the configuration that a new proxy is sent.
func TestRandomConnectsAndChanges(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, 5, push.Options{}, func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			var fleet []*proxy
			for step := range 60 {
				switch n := random.IntN(8); {
				case n < 2:
					fleet = append(fleet, f.connect(pushtest.Proxy(random.IntN(4), fmt.Sprint("ns", random.IntN(3)))))
				case n < 3 && len(fleet) > 0:
					i := random.IntN(len(fleet))
					fleet[i].c.Close()
					fleet = append(fleet[:i:i], fleet[i+1:]...)
				case n < 4:
					f.mesh.AddService(fmt.Sprint("s", random.IntN(8)))
				case n < 5:
					f.mesh.RemoveService(fmt.Sprint("s", random.IntN(8)))
				case n < 6:
					address := fmt.Sprint("10.3.0.", step)
					if random.IntN(2) == 0 { // changes what a proxy serves, and with it its class
						address = pushtest.Proxy(random.IntN(4), "").Addresses[0].String()
					}
					f.mesh.SetEndpoints(fmt.Sprint("s", random.IntN(3)), address)
				case n < 7:
					f.mesh.EditRoutes()
				default:
					time.Sleep(time.Duration(random.IntN(40)) * time.Second)
				}
				if random.IntN(3) == 0 {
					f.settle()
					for _, x := range fleet {
						x.follow()
					}
				}
			}
			for range 3 {
				f.settle()
				for _, x := range fleet {
					x.follow()
				}
			}
			for _, x := range fleet {
				fresh := f.connect(x.who)
				fresh.follow()
				for typeURL := range fresh.has {
					if d := cmp.Diff(fresh.has[typeURL], x.has[typeURL]); d != "" {
						t.Errorf("seed %d: %s of a long-connected proxy differs from that of a new proxy (-new +old):\n%s", seed, typeURL, d)
					}
				}
				fresh.c.Close()
			}
		})
	}
}

// TestReturningProxyGetsSharedProducerOutput: a class without clients shares a producer with a
// class that has some. A proxy that returns to it is sent the changes made meanwhile.
func TestReturningProxyGetsSharedProducerOutput(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		f.mesh.SetEndpoints(
			"s1",
			pushtest.Proxy(0, "").Addresses[0].String(),
		) // so that proxy 0 is of a class of its own
		f.settle()
		f.connect(pushtest.Proxy(0, "default")).c.Close()
		f.connect(pushtest.Proxy(1, "default"))
		f.mesh.AddService("new")
		f.settle()
		if n := len(f.connect(pushtest.Proxy(0, "default")).has[api.ClusterType]); n != 5 {
			t.Errorf("the reconnected proxy has %d clusters, want 5", n)
		}
	})
}
