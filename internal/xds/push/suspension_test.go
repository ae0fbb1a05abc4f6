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

// shaped reports whether the listener that a proxy has is shaped by any EnvoyFilter.
func (x *proxy) shaped() bool { return len(x.has[api.ListenerType][listener]) > 2+len(listener) }

// TestAnEnvoyFilterIsSuspended: the resource is served without it, with all its other changes.
func TestAnEnvoyFilterIsSuspended(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("RDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Routes: true})
		f.settle()
		f.want(x.read(), "RDS +1 -0", "RDS +1 -0") // at once, for there is nobody else
		want := config.Key{Kind: api.EnvoyFilter, Namespace: "default", Name: "bad"}
		if q := f.kept(1)[0]; q.Suspended != want || q.Name != "80" || len(q.Witnesses) != 1 || len(q.From) != 1 ||
			q.From[0] != want {
			t.Fatalf("in quarantine is %+v, want the EnvoyFilter", q)
		}
		x.refuse("")
		before := x.route()
		f.mesh.EditRoutes()
		f.settle()
		if x.read(); x.route() == before {
			t.Error("another change of the resource does not reach the proxy")
		}
		f.kept(1)
		time.Sleep(quarantine.DefaultRetry)
		synctest.Wait()
		f.kept(0)
		f.want(x.read(), "RDS +1 -0") // with the EnvoyFilter, which it takes now
		f.decide()
		f.kept(0)
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
			if q := f.kept(1)[0]; q.Attempt != i+1 || q.Until.Sub(q.Since) != lasts {
				t.Fatalf("attempt %d lasts %v, want attempt %d for %v", q.Attempt, q.Until.Sub(q.Since), i+1, lasts)
			}
			time.Sleep(lasts)
			synctest.Wait()
			f.kept(0)
		}
		x.read()
		f.kept(1)
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Edit: 1})
		f.settle()
		f.kept(0)
	})
}

// TestAnAnonymousClientSuspendsNothing is the attack in which a client of the plain-text port, of a
// class of its own, refuses listeners: it had the EnvoyFilter left out for all proxies of its
// namespace.
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
					t.Fatal("the EnvoyFilter does nothing")
				}
				f.join(hostile(), "LDS")
				f.join(hostile(), "LDS")
				for range 3 {
					f.decide()
					f.want(x.read())
					if fresh := f.connect(pushtest.Proxy(2, "default")); !fresh.shaped() {
						t.Error("a proxy that came later has no EnvoyFilter")
					}
				}
			})
		})
	}
}

// TestTwoHostileIdentitiesSuspendNothingForLong: proxies that were slower than two hostile ones get
// the EnvoyFilter when the suspension expires, and keep it.
func TestTwoHostileIdentitiesSuspendNothingForLong(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, a, b := f.connect(
			pushtest.Proxy(0, "default"),
		), f.connect(
			pushtest.Proxy(1, "default"),
		), f.connect(
			pushtest.Proxy(2, "default"),
		)
		a.refuse("LDS")
		b.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "good"})
		f.settle()
		a.read()
		b.read()
		f.decide()
		q := f.kept(1)[0]
		var ids []string
		for _, c := range f.p.Connections() {
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
			f.kept(0)
		}
	})
}

// TestALateAcceptanceEndsASuspension: what was on its way when the EnvoyFilter was suspended, and
// is taken, has it back at once.
func TestALateAcceptanceEndsASuspension(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, a, b := f.connect(
			pushtest.Proxy(0, "default"),
		), f.connect(
			pushtest.Proxy(1, "default"),
		), f.connect(
			pushtest.Proxy(2, "default"),
		)
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
		f.kept(1)
		x.take(sent)
		x.c.Request(stream.Request{TypeURL: sent.TypeURL, Nonce: sent.Nonce})
		f.settle()
		f.kept(0)
		if x.read(); !x.shaped() {
			t.Error("the proxy has lost the EnvoyFilter that it took")
		}
		a.read()
		b.read()
		f.decide()
		f.kept(0)
	})
}

// TestWhatProtectsIsNotSuspended: the last good resource stays instead, and never one without the
// filter.
func TestWhatProtectsIsNotSuspended(t *testing.T) {
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
				if q := f.kept(1)[0]; q.Suspended != (config.Key{}) || !q.Replaced || q.Name != listener {
					t.Fatalf("in quarantine is %+v, want the listener", q)
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

// TestAFilterThatIsMarkedOptionalIsSuspended: whatever it does.
func TestAFilterThatIsMarkedOptionalIsSuspended(t *testing.T) {
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
		if q := f.kept(1)[0]; q.Suspended.Name != "guard" {
			t.Fatalf("in quarantine is %+v, want the EnvoyFilter", q)
		}
		// The annotation alone is a change.
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "guard", Protects: true})
		f.settle()
		f.kept(0)
	})
}

// TestAHarmlessFilterBesideOneThatProtects: the harmless one is left out first. If that does not
// help, the last good resource stays, which has neither.
func TestAHarmlessFilterBesideOneThatProtects(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.has[api.ListenerType][listener]
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "compressor"})
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "guard", Protects: true})
		f.settle()
		// With both, with the guard alone, which it refuses too, and with neither.
		f.want(x.read(), "LDS +1 -0", "LDS +1 -0", "LDS +1 -0")
		f.kept(2)
		if x.has[api.ListenerType][listener] != good {
			t.Error("the proxy has not the last good listener")
		}
	})
}

// TestProxiesOfAClassThatGoesAreNoWitnesses: suspensions of classes without proxies are dropped,
// and those who come back are asked.
func TestProxiesOfAClassThatGoesAreNoWitnesses(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.refuse("LDS")
		f.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad"})
		f.settle()
		x.read()
		f.decide()
		f.kept(1)
		x.c.Close()
		f.kept(0)
		time.Sleep(2 * time.Minute)
		if y := f.connect(pushtest.Proxy(1, "default")); !y.shaped() {
			t.Error("a proxy that comes later has no EnvoyFilter")
		}
	})
}

// TestASuspensionEndsAfterAChangeOfMutualTLS: that a server goes through the steps of such a change
// does not make it another class.
func TestASuspensionEndsAfterAChangeOfMutualTLS(t *testing.T) {
	withPeers(t, disable, func(p *peers) {
		p.server.refuse("RDS")
		p.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: "bad", Routes: true})
		p.settle()
		p.server.read()
		p.kept(1)
		without := p.server.route()
		p.server.refuse("")
		p.mesh.SetPeers(strict)
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			p.server.read()
			p.client.read()
		}
		p.takes(strict)
		time.Sleep(quarantine.DefaultRetry)
		if p.server.read(); p.server.route() == without {
			t.Error("the EnvoyFilter is not offered to the server again")
		}
		p.kept(0)
	})
}

// TestAClassSuspendsNothingForOthers: two identities in a class of their own refuse an EnvoyFilter
// before any other proxy has it. Others of the type and namespace get it all the same.
func TestAClassSuspendsNothingForOthers(t *testing.T) {
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
		f.kept(1)
		if x.read(); !x.shaped() {
			t.Error("a proxy of another class is served the listener without the EnvoyFilter")
		}
		if fresh := f.connect(pushtest.Proxy(3, "default")); !fresh.shaped() {
			t.Error("a proxy of another class that came later is served the listener without the EnvoyFilter")
		}
	})
}
