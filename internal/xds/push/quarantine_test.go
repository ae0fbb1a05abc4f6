package push_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// wantQuarantined returns the resources in quarantine. It fails the test unless there are n.
func (f *fixture) wantQuarantined(n int) []push.Quarantined {
	f.t.Helper()
	kept := f.p.Reports().Quarantine()
	if len(kept) != n {
		f.t.Fatalf("in quarantine: %+v, want %d", kept, n)
	}
	return kept
}

// route returns the body of the route that a proxy has.
func (x *proxy) route() string { return x.has[api.RouteType]["80"] }

// refuse makes a proxy refuse responses of a type that contain a resource it has not accepted yet.
func (x *proxy) refuse(short string) { x.nak = short }

func TestRefusedVersionIsWithheldFromOthers(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.route()
		x.refuse("RDS")
		f.mesh.EditRoutes()
		f.mesh.SetEndpoints("s1", "10.5.0.1")
		f.settle()
		f.want(x.read(), "EDS +1 -0", "RDS +1 -0", "RDS +1 -0") // at once, because it is the only proxy
		q := f.wantQuarantined(1)[0]
		if q.Name != "80" || q.Message != "no 80" || !q.Replaced || len(q.From) != 1 || q.Attempt != 1 ||
			len(q.Witnesses) != 1 ||
			q.Witnesses[0] != x.who.Identity ||
			q.Until.Sub(q.Since) != quarantine.DefaultRetry {
			t.Fatalf(
				"in quarantine is %+v, want the RouteConfiguration with its VirtualService, the witness and the proxy's words",
				q)
		}
		if id := f.p.Reports().Connections()[0].ID; !slices.Equal(q.Affected, []string{id}) {
			t.Errorf("the route is withheld from %v, want %s", q.Affected, id)
		}
		if x.route() != good {
			t.Error("the proxy does not have the last good route")
		}
		f.mesh.SetEndpoints("s1", "10.5.0.2") // other changes are still pushed
		f.settle()
		f.want(x.read(), "EDS +1 -0")

		x.refuse("")
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		f.wantQuarantined(0)
	})
}

// TestTwoWitnessesQuarantineForAll: when two identities refuse a route, a third proxy is served the
// last good route.
func TestTwoWitnessesQuarantineForAll(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		a, b := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		f.connect(pushtest.Proxy(3, "default")) // answers nothing
		good := a.route()
		a.refuse("RDS")
		b.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		a.read()
		b.read()
		f.settle()
		f.wantQuarantined(0) // the window has not ended
		f.decide()
		if q := f.wantQuarantined(1)[0]; len(q.Witnesses) != 2 || q.Connections != 2 {
			t.Errorf("witnesses = %v (%d connections), want both", q.Witnesses, q.Connections)
		}
		late := f.connect(pushtest.Proxy(2, "default"))
		if late.route() != good {
			t.Error("a proxy that connected later does not have the last good route")
		}
		f.wantQuarantined(1)
	})
}

// TestAFastClientFreezesNothing: in this attack one client refuses a route before any other proxy
// was sent it.
func TestAFastClientFreezesNothing(t *testing.T) {
	for name, identity := range map[string]string{"anonymous": "", "of another identity": "spiffe://cluster.local/ns/default/sa/evil"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, push.Options{}, func(f *fixture) {
				x := f.connect(pushtest.Proxy(0, "default"))
				var hostile []*proxy
				for i := range 3 {
					hostile = append(hostile, f.connect(pushtest.Identified(pushtest.Proxy(1+i, "default"), identity)))
				}
				for _, h := range hostile {
					h.refuse("RDS")
				}
				f.mesh.EditRoutes()
				f.settle()
				for _, h := range hostile {
					h.read()
				}
				f.decide()
				f.wantQuarantined(0)
				before := x.route()
				f.want(x.read(), "RDS +1 -0")
				if x.route() == before {
					t.Error("the honest proxy does not have the newest route")
				}
				for range 3 {
					f.decide()
					f.wantQuarantined(0)
					f.want(x.read())
				}
			})
		})
	}
}

// TestTwoHostileIdentitiesFreezeNothingForLong: an honest proxy that answered later than two
// hostile ones is offered the resource again, and its ACK ends the quarantine permanently.
func TestTwoHostileIdentitiesFreezeNothingForLong(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		a := f.connect(pushtest.Proxy(1, "default"))
		b := f.connect(pushtest.Proxy(2, "default"))
		before := x.route()
		a.refuse("RDS")
		b.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		a.read()
		b.read()
		f.decide()
		f.wantQuarantined(1)
		f.want(x.read()) // its ResourceSnapshot contains the route that it has already
		time.Sleep(quarantine.DefaultRetry)
		synctest.Wait()
		f.wantQuarantined(0)
		f.want(x.read(), "RDS +1 -0")
		if x.route() == before {
			t.Error("the honest proxy does not have the newest route")
		}
		for range 3 {
			a.read()
			b.read()
			f.decide()
			f.wantQuarantined(0)
		}
	})
}

func TestAQuarantineExpiresAndDoubles(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.route()
		x.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		for i, lasts := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			x.read()
			time.Sleep(lasts / 20) // the window is a tenth of the previous quarantine
			f.decide()
			if q := f.wantQuarantined(1)[0]; q.Attempt != i+1 || q.Until.Sub(q.Since) != lasts {
				t.Fatalf("attempt %d lasts %v, want attempt %d for %v", q.Attempt, q.Until.Sub(q.Since), i+1, lasts)
			}
			x.read()
			if x.route() != good {
				t.Error("the proxy does not have the last good route")
			}
			time.Sleep(lasts)
			synctest.Wait()
			f.wantQuarantined(0)
		}
		x.refuse("")
		f.want(x.read(), "RDS +1 -0")
		x.refuse("RDS")
		x.took = nil // the proxy refuses everything now, and is sent nothing
		f.decide()
		f.wantQuarantined(0)
	})
}

func TestAcceptedVersionIsNotWithheld(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, odd := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		odd.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		f.want(odd.read(), "RDS +1 -0")
		f.decide()
		f.wantQuarantined(0)
		if n := f.p.Reports().Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks = %+v, want one standing NACK", n)
		}
		x.c.Close() // its refusal still counts
		f.decide()
		f.wantQuarantined(0)
		f.want(odd.read())
	})
}

func TestRefusedLocalResourceIsNotQuarantined(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		f.gen.Local = "80"
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		f.decide()
		f.wantQuarantined(0)
		if n := f.p.Reports().Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks = %+v, want one standing NACK", n)
		}
	})
}

func TestRefusedResourceWithoutEarlierVersionIsOmitted(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("CDS")
		f.mesh.AddService("bad")
		f.settle()
		x.read()
		f.decide()
		if q := f.wantQuarantined(1)[0]; q.Name != pushtest.ClusterName("bad") || !q.Withheld {
			t.Fatalf("in quarantine: %+v, want the new cluster", q)
		}
		late := f.connect(pushtest.Identified(pushtest.Proxy(1, "default"), ""))
		if n := len(late.has[api.ClusterType]); n != 4 {
			t.Errorf("a proxy that connected later has %d clusters, want the 4 good ones", n)
		}
		f.mesh.RemoveService("bad")
		f.settle()
		f.wantQuarantined(0)
	})
}

func TestLastGoodVersionIsKnownInAnotherClass(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.route()
		x.refuse("RDS")
		f.mesh.SetSidecar(map[string]string{"i": "0"}) // the proxy belongs to another class now
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		f.decide()
		x.read()
		if q := f.wantQuarantined(1)[0]; !q.Replaced {
			t.Fatalf("in quarantine: %+v, want the route, replaced by its previous version", q)
		}
		if x.route() != good {
			t.Error("the route of the proxy has changed")
		}
	})
}

// TestRefusedCandidateIsNotLastGoodAfterClassChange: a version that a proxy refuses does not become
// the last good one when the proxy changes its class.
func TestRefusedCandidateIsNotLastGoodAfterClassChange(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.route()
		x.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		f.mesh.SetSidecar(map[string]string{"i": "0"})
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		f.decide()
		x.read()
		if f.wantQuarantined(1); x.route() != good {
			t.Error("the proxy is not served the last good route")
		}
	})
}

func TestResourcesFromBeforeARestartAreKept(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.c.Close()
		time.Sleep(2 * time.Minute) // all state has expired, as after a restart
		f.mesh.EditRoutes()
		f.settle()
		again := f.p.Connect(x.who, stream.Delta, "test")
		defer again.Close()
		back := &proxy{f: f, who: x.who, c: again, has: map[string]map[string]string{}, nak: "RDS", took: x.took}
		nothingGoes := func() {
			for _, got := range back.read() {
				if !strings.HasSuffix(got, "-0") {
					t.Errorf("a resource is removed from the proxy: %s", got)
				}
			}
		}
		for _, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType} {
			held := map[string]string{}
			for name := range x.has[typeURL] {
				held[name] = "an older one"
			}
			r := stream.Request{TypeURL: typeURL, Held: stream.HoldingsOf(held)}
			if typeURL == api.EndpointType || typeURL == api.RouteType {
				r.Subscribe = slices.Collect(maps.Keys(held))
			}
			again.Request(r)
			nothingGoes()
		}
		f.decide()
		nothingGoes()
		if q := f.wantQuarantined(1)[0]; q.Replaced || q.Withheld {
			t.Errorf("in quarantine: %+v, want the route without a last good version", q)
		}
	})
}

// TestFirstRequestedRouteIsNotRemoved: a proxy may have a route from before a restart that no proxy
// has requested since. Its refusal of the new version does not remove the route.
func TestFirstRequestedRouteIsNotRemoved(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		f.connect(pushtest.Proxy(1, "default")).c.Close()
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("RDS")
		x.c.Request(stream.Request{
			TypeURL:   api.RouteType,
			Subscribe: []string{"other"},
			Held:      stream.HoldingsOf(map[string]string{"other": "an older one"}),
		})
		x.read()
		f.decide()
		for _, got := range x.read() {
			if !strings.HasSuffix(got, "-0") {
				t.Errorf("a resource is removed from the proxy: %s", got)
			}
		}
		if q := f.wantQuarantined(1)[0]; q.Replaced || q.Withheld {
			t.Errorf("in quarantine: %+v, want the route without a last good version", q)
		}
	})
}

// TestFirstAnswerDoesNotDecide: proxies that refuse a version before another proxy has answered do
// not withhold it from that proxy.
func TestFirstAnswerDoesNotDecide(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		odd := f.connect(pushtest.Proxy(1, "default"))
		mad := f.connect(pushtest.Proxy(3, "default"))
		late := f.connect(pushtest.Proxy(2, "default"))
		odd.refuse("RDS")
		mad.refuse("RDS")
		f.mesh.EditRoutes()
		f.settle()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		sent, err := x.c.Next(now) // the response is being sent
		if err != nil {
			t.Fatal(err)
		}
		odd.read()
		mad.read()
		f.decide()
		f.wantQuarantined(1)
		x.recordResources(sent)
		x.c.Sent(sent, 1, 0)
		x.c.Request(stream.Request{TypeURL: sent.TypeURL, Nonce: sent.Nonce})
		f.settle()
		f.wantQuarantined(0)
		x.read()
		late.read()
		if want := string(sent.Parts[0].Resources()[0].Body); late.route() != want || x.route() != want {
			t.Error("the other proxies do not have the version that the first one accepted")
		}
		for range 3 {
			odd.read()
			mad.read()
			f.decide()
			f.wantQuarantined(0)
		}
		f.want(x.read())
	})
}

func TestVersionAcceptedByTheNextProxyIsNotQuarantined(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		odd := f.join(pushtest.Proxy(0, "default"), "RDS")
		f.decide()
		f.wantQuarantined(1)
		f.connect(pushtest.Proxy(1, "default"))
		f.wantQuarantined(0)
		if n := f.p.Reports().Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks = %+v, want one standing NACK", n)
		}
		f.want(odd.read())
	})
}

func TestUnsubscribingEndsTheRefusal(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, other := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		ask := stream.Request{TypeURL: api.RouteType, Subscribe: []string{"new"}}
		other.c.Request(ask)
		other.read() // accepts it, so it is withheld from no proxy
		x.refuse("RDS")
		x.c.Request(ask)
		x.read()
		if n := f.p.Reports().Nacks(); len(n) != 1 || !n[0].Standing {
			t.Fatalf("nacks = %+v, want one standing NACK", n)
		}
		x.c.Request(stream.Request{TypeURL: api.RouteType, Unsubscribe: []string{"new"}})
		x.read()
		if f.p.Reports().Nacks()[0].Standing {
			t.Error("a refusal of a resource that the proxy has unsubscribed from still stands")
		}
	})
}

// TestAnonymousProxiesAreNotTracked: without voters no acknowledgement is examined and no previous
// version is retained.
func TestAnonymousProxiesAreNotTracked(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Identified(pushtest.Proxy(0, "default"), ""))
		for range 3 {
			f.mesh.EditRoutes()
			f.settle()
			x.refuse("RDS")
			x.read()
			f.decide()
			f.wantQuarantined(0)
		}
		// The first voter decides only for itself; the version served before is unknown.
		y := f.join(pushtest.Proxy(1, "default"), "RDS")
		f.decide()
		if q := f.wantQuarantined(1)[0]; q.Replaced || q.Withheld {
			t.Errorf("in quarantine: %+v, want the route without a last good version", q)
		}
		f.want(y.read())
	})
}

// TestResourceHeldAfterRestartIsNotWithheld: a proxy that reconnects with a resource has accepted
// it, although this control plane did not send it. If two others refuse the resource or its
// EnvoyFilters, neither is withheld from that proxy.
func TestResourceHeldAfterRestartIsNotWithheld(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
		f.settle()
		x.read()
		x.c.Close()
		time.Sleep(2 * time.Minute) // all state has expired, as after a restart
		again := f.p.Connect(x.who, stream.Delta, "test")
		defer again.Close()
		back := &proxy{f: f, who: x.who, c: again, has: map[string]map[string]string{}}
		for _, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType} {
			held := map[string]string{}
			for name, body := range x.has[typeURL] {
				held[name] = resource.FromBytes(name, typeURL, []byte(body)).Version
			}
			r := stream.Request{TypeURL: typeURL, Held: stream.HoldingsOf(held)}
			if typeURL == api.EndpointType || typeURL == api.RouteType {
				r.Subscribe = slices.Collect(maps.Keys(held))
			}
			again.Request(r)
			back.read()
		}
		f.join(pushtest.Proxy(1, "default"), "LDS")
		f.join(pushtest.Proxy(2, "default"), "LDS")
		f.decide()
		f.wantQuarantined(0)
		f.join(pushtest.Proxy(3, "default"), "RDS")
		f.join(pushtest.Proxy(4, "default"), "RDS")
		f.decide()
		f.wantQuarantined(0)
		f.want(back.read())
	})
}

// TestUnwatchedAcceptanceCounts: after watchLimit acknowledgements are no longer watched. Voters
// are queried before a quarantine begins, so that an acceptance still counts.
func TestUnwatchedAcceptanceCounts(t *testing.T) {
	for name, change := range map[string]func(*pushtest.Mesh){
		"of a resource":     (*pushtest.Mesh).EditRoutes,
		"of an EnvoyFilter": func(m *pushtest.Mesh) { m.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good", Routes: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, push.Options{}, func(f *fixture) {
				x := f.connect(pushtest.Proxy(0, "default"))
				a := f.connect(pushtest.Proxy(1, "default"))
				b := f.connect(pushtest.Proxy(2, "default"))
				a.refuse("RDS")
				b.refuse("RDS")
				change(f.mesh)
				time.Sleep(11 * time.Minute)
				f.want(x.read(), "RDS +1 -0")
				a.read()
				b.read()
				f.decide()
				f.wantQuarantined(0)
				f.want(x.read())
			})
		})
	}
}

// TestTwoBadVersionsInARow: after two refused versions in a row the first is not served as the last
// good one, although it was never quarantined.
func TestTwoBadVersionsInARow(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, y := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		good := x.route()
		x.refuse("RDS")
		y.refuse("RDS")
		for range 2 {
			f.mesh.EditRoutes()
			f.settle()
			x.read() // y does not answer in time
		}
		f.wantQuarantined(0)
		y.read()
		f.decide()
		f.wantQuarantined(1)
		if late := f.connect(pushtest.Identified(pushtest.Proxy(2, "default"), "")); late.route() != good {
			t.Error("the last good route is not served")
		}
	})
}

// TestReconnectingClientIsOneWitness: where all proxies share one identity, connections count as
// witnesses, but only open ones.
func TestReconnectingClientIsOneWitness(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		same := func(i int) *proxy { return f.connect(pushtest.Identified(pushtest.Proxy(i, "default"), "same")) }
		x := same(0)
		f.mesh.EditRoutes()
		f.settle()
		for i := range 3 {
			h := f.join(pushtest.Identified(pushtest.Proxy(1+i, "default"), "same"), "RDS")
			f.settle()
			f.wantQuarantined(0)
			h.c.Close()
		}
		f.decide()
		f.wantQuarantined(0)
		f.want(x.read(), "RDS +1 -0")
	})
}
