package push_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

const listener = "0.0.0.0_80"

// shaped reports whether an EnvoyFilter has modified the listener that a proxy has.
func (x *proxy) shaped() bool { return len(x.has[api.ListenerType][listener]) > 2+len(listener) }

// TestAnEnvoyFilterIsSuspended: the refused resource is served without the EnvoyFilter, and with
// all its other changes.
func TestAnEnvoyFilterIsSuspended(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("RDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Routes: true})
		f.settle()
		f.want(x.read(), "RDS +1 -0", "RDS +1 -0") // at once, because it is the only proxy
		want := config.Key{Kind: api.EnvoyFilter, Namespace: "default", Name: "bad"}
		if q := f.wantQuarantined(1)[0]; q.Suspended != want || q.Name != "80" || len(q.Witnesses) != 1 || len(q.From) != 1 ||
			q.From[0] != want {
			t.Fatalf("in quarantine: %+v, want the EnvoyFilter", q)
		}
		x.refuse("")
		before := x.route()
		f.mesh.EditRoutes()
		f.settle()
		if x.read(); x.route() == before {
			t.Error("another change of the resource does not reach the proxy")
		}
		f.wantQuarantined(1)
		time.Sleep(quarantine.DefaultRetry)
		synctest.Wait()
		f.wantQuarantined(0)
		f.want(x.read(), "RDS +1 -0") // with the EnvoyFilter, which the proxy accepts now
		f.decide()
		f.wantQuarantined(0)
	})
}

func TestASuspensionExpiresAndDoubles(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad"})
		f.settle()
		for i, lasts := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			f.want(x.read(), "LDS +1 -0", "LDS +1 -0")
			if q := f.wantQuarantined(1)[0]; q.Attempt != i+1 || q.Until.Sub(q.Since) != lasts {
				t.Fatalf("attempt %d lasts %v, want attempt %d for %v", q.Attempt, q.Until.Sub(q.Since), i+1, lasts)
			}
			time.Sleep(lasts)
			synctest.Wait()
			f.wantQuarantined(0)
		}
		x.read()
		f.wantQuarantined(1)
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Edit: 1})
		f.settle()
		f.wantQuarantined(0)
	})
}

// TestAnAnonymousClientSuspendsNothing: a client of the plain-text port, in a class of its own,
// refuses listeners. This used to suspend the EnvoyFilter for all proxies of its namespace.
func TestAnAnonymousClientSuspendsNothing(t *testing.T) {
	otherDomain := func(p *mesh.Proxy) *mesh.Proxy { p.DNSDomain = "evil.example.com"; return p }
	for name, hostile := range map[string]func() *mesh.Proxy{
		"of its own class, anonymous":  func() *mesh.Proxy { return otherDomain(pushtest.Identified(pushtest.Proxy(1, "default"), "")) },
		"of its own class, identified": func() *mesh.Proxy { return otherDomain(pushtest.Proxy(1, "default")) },
		"of the same class, anonymous": func() *mesh.Proxy { return pushtest.Identified(pushtest.Proxy(1, "default"), "") },
		"of the same class":            func() *mesh.Proxy { return pushtest.Proxy(1, "default") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, push.Options{}, func(f *fixture) {
				x := f.connect(pushtest.Proxy(0, "default"))
				f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
				f.settle()
				if x.read(); !x.shaped() {
					t.Fatal("the EnvoyFilter has no effect")
				}
				f.join(hostile(), "LDS")
				f.join(hostile(), "LDS")
				for range 3 {
					f.decide()
					f.want(x.read())
					if fresh := f.connect(pushtest.Proxy(2, "default")); !fresh.shaped() {
						t.Error("a proxy that connected later has no EnvoyFilter")
					}
				}
			})
		})
	}
}

// TestTwoHostileIdentitiesSuspendNothingForLong: proxies that answered later than two hostile ones
// get the EnvoyFilter when the suspension expires, and keep it.
func TestTwoHostileIdentitiesSuspendNothingForLong(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		a := f.connect(pushtest.Proxy(1, "default"))
		b := f.connect(pushtest.Proxy(2, "default"))
		a.refuse("LDS")
		b.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
		f.settle()
		a.read()
		b.read()
		f.decide()
		q := f.wantQuarantined(1)[0]
		var ids []string
		for _, c := range f.p.Reports().Connections() {
			ids = append(ids, c.ID)
		}
		if slices.Sort(q.Affected); !slices.Equal(q.Affected, ids) {
			t.Errorf("the EnvoyFilter is withheld from %v, want %v", q.Affected, ids)
		}
		if x.read(); x.shaped() {
			t.Error("the EnvoyFilter is not suspended")
		}
		time.Sleep(quarantine.DefaultRetry)
		synctest.Wait()
		if x.read(); !x.shaped() {
			t.Error("the proxy does not have the EnvoyFilter after the suspension")
		}
		for range 3 {
			a.read()
			b.read()
			f.decide()
			f.wantQuarantined(0)
		}
	})
}

// TestLateAcceptanceEndsSuspension: when a response that was sent before the EnvoyFilter was
// suspended is accepted, the suspension ends at once.
func TestLateAcceptanceEndsSuspension(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		a := f.connect(pushtest.Proxy(1, "default"))
		b := f.connect(pushtest.Proxy(2, "default"))
		a.refuse("LDS")
		b.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
		f.settle()
		sent, err := x.c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x.c.Sent(sent, 1, 0)
		a.read()
		b.read()
		f.decide()
		f.wantQuarantined(1)
		x.recordResources(sent)
		x.c.Request(stream.Request{TypeURL: sent.TypeURL, Nonce: sent.Nonce})
		f.settle()
		f.wantQuarantined(0)
		if x.read(); !x.shaped() {
			t.Error("the proxy has lost the EnvoyFilter that it accepted")
		}
		a.read()
		b.read()
		f.decide()
		f.wantQuarantined(0)
	})
}

// TestProtectingFilterIsNotSuspended: the last good resource stays in use, and the resource is
// never served without a filter that protects.
func TestProtectingFilterIsNotSuspended(t *testing.T) {
	required := map[string]string{config.RequiredAnnotation: "true"}
	for name, filter := range map[string]pushtest.EnvoyFilter{
		"a filter of authorization": {Protects: true}, "what is marked as required": {Annotations: required},
		"what is marked as nothing known": {Annotations: map[string]string{config.RequiredAnnotation: "maybe"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, push.Options{}, func(f *fixture) {
				x := f.connect(pushtest.Proxy(0, "default"))
				filter.Name = "guard"
				f.mesh.SetEnvoyFilter(filter)
				f.settle()
				x.read()
				good := x.has[api.ListenerType][listener]
				x.refuse("LDS")
				filter.Edit = 1
				f.mesh.SetEnvoyFilter(filter)
				f.settle()
				x.read()
				f.decide()
				if q := f.wantQuarantined(1)[0]; q.Suspended != (config.Key{}) || !q.Replaced || q.Name != listener {
					t.Fatalf("in quarantine: %+v, want the listener", q)
				}
				x.read()
				reconnected := f.connect(pushtest.Identified(pushtest.Proxy(1, "default"), ""))
				if x.has[api.ListenerType][listener] != good || reconnected.has[api.ListenerType][listener] != good {
					t.Error("the last good listener is not served")
				}
			})
		})
	}
}

// TestFilterMarkedOptionalIsSuspended: an EnvoyFilter that is marked as optional is suspended even
// if it protects.
func TestFilterMarkedOptionalIsSuspended(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(
			pushtest.EnvoyFilter{
				Name:        "guard",
				Protects:    true,
				Annotations: map[string]string{config.RequiredAnnotation: "false"},
			},
		)
		f.settle()
		x.read()
		f.decide()
		if q := f.wantQuarantined(1)[0]; q.Suspended.Name != "guard" {
			t.Fatalf("in quarantine: %+v, want the EnvoyFilter", q)
		}
		// A change of the annotation alone ends the suspension.
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "guard", Protects: true})
		f.settle()
		f.wantQuarantined(0)
	})
}

// TestHarmlessFilterBesideProtectingFilter: the harmless filter is left out first. If the resource
// is still refused, the last good resource stays, which has neither filter.
func TestHarmlessFilterBesideProtectingFilter(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.has[api.ListenerType][listener]
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "compressor"})
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "guard", Protects: true})
		f.settle()
		// Offered with both filters, with the protecting one alone, which is refused too, and with
		// neither.
		f.want(x.read(), "LDS +1 -0", "LDS +1 -0", "LDS +1 -0")
		f.wantQuarantined(2)
		if x.has[api.ListenerType][listener] != good {
			t.Error("the proxy does not have the last good listener")
		}
	})
}

// TestSuspensionsOfEmptyClassesAreDropped: suspensions of classes without proxies are dropped, and
// proxies that reconnect are offered the resource with the EnvoyFilter.
func TestSuspensionsOfEmptyClassesAreDropped(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad"})
		f.settle()
		x.read()
		f.decide()
		f.wantQuarantined(1)
		x.c.Close()
		f.wantQuarantined(0)
		time.Sleep(2 * time.Minute)
		if y := f.connect(pushtest.Proxy(1, "default")); !y.shaped() {
			t.Error("a proxy that connected later has no EnvoyFilter")
		}
	})
}

// TestSuspensionEndsAfterChangeOfMutualTLS: the phases of a mutual TLS transition do not move a
// server to a class with suspensions of its own.
func TestSuspensionEndsAfterChangeOfMutualTLS(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		p.server.refuse("RDS")
		p.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Routes: true})
		p.settle()
		p.server.read()
		p.wantQuarantined(1)
		without := p.server.route()
		p.server.refuse("")
		p.mesh.SetPeers(strict)
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			p.server.read()
			p.client.read()
		}
		p.wantServerMode(strict)
		time.Sleep(quarantine.DefaultRetry)
		if p.server.read(); p.server.route() == without {
			t.Error("the EnvoyFilter is not offered to the server again")
		}
		p.wantQuarantined(0)
	})
}

// TestSuspensionIsLimitedToItsClass: two identities in a class of their own refuse an EnvoyFilter
// before any other proxy has it. Proxies of other classes in the namespace still get it.
func TestSuspensionIsLimitedToItsClass(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		var hostile []*proxy
		for i := range 2 {
			who := pushtest.Proxy(1+i, "default")
			who.DNSDomain = "evil.example.com"
			hostile = append(hostile, f.connect(who))
		}
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
		f.settle()
		for _, h := range hostile {
			h.refuse("LDS")
			h.read()
		}
		f.decide()
		f.wantQuarantined(1)
		if x.read(); !x.shaped() {
			t.Error("a proxy of another class is served the listener without the EnvoyFilter")
		}
		if fresh := f.connect(pushtest.Proxy(3, "default")); !fresh.shaped() {
			t.Error("a proxy of another class that connected later is served the listener without the EnvoyFilter")
		}
	})
}
