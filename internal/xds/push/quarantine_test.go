package push_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func TestWhatIsRefusedIsKeptFromOthers(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.has[api.RouteType]["80"]
		x.nak = "RDS"
		f.mesh.EditRoutes()
		f.mesh.SetEndpoints("s1", "10.5.0.1")
		f.settle()
		f.want(x.read(), "EDS +1 -0", "RDS +1 -0", "RDS +1 -0")
		kept := f.p.Quarantine()
		if len(kept) != 1 || kept[0].Name != "80" || kept[0].Message != "no 80" || !kept[0].Replaced || len(kept[0].From) != 1 {
			t.Fatalf("in quarantine is %+v, want the RouteConfiguration with its VirtualService and the proxy's words", kept)
		}

		late := f.connect(pushtest.Proxy(1, "default"))
		if late.has[api.RouteType]["80"] != good {
			t.Error("a proxy that came later has another one than the last that was good")
		}
		f.mesh.SetEndpoints("s1", "10.5.0.2") // everything else goes on
		f.settle()
		f.want(late.read(), "EDS +1 -0")

		x.nak = ""
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "EDS +1 -0", "RDS +1 -0")
		f.want(late.read(), "RDS +1 -0")
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("after the mend there is still in quarantine %+v", kept)
		}
	})
}

func TestWhatOthersTookIsNotKeptFromThem(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, odd := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		odd.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		f.want(odd.read(), "RDS +1 -0")
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("in quarantine is %+v, which a proxy has taken", kept)
		}
		if n := f.p.Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks %+v, want one that stands", n)
		}
		f.settle()
		f.want(x.read())
	})
}

func TestWhatIsAMatterOfOneProxyIsNotKeptFromOthers(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		f.gen.Local = "80"
		x := f.connect(pushtest.Proxy(0, "default"))
		x.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		f.want(x.read(), "RDS +1 -0")
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("in quarantine is %+v, which others may take", kept)
		}
		if n := f.p.Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks %+v, want one that stands", n)
		}
	})
}

func TestWhatHasNoEarlierVersionIsLeftOut(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.nak = "CDS"
		f.mesh.AddService("bad")
		f.settle()
		x.read()
		if kept := f.p.Quarantine(); len(kept) != 1 || kept[0].Name != pushtest.ClusterName("bad") || !kept[0].Withheld {
			t.Fatalf("in quarantine is %+v, want the new cluster", kept)
		}
		late := f.connect(pushtest.Proxy(1, "default"))
		if n := len(late.has[api.ClusterType]); n != 4 {
			t.Errorf("a proxy that came later has %d clusters, want the 4 good ones", n)
		}
		f.mesh.RemoveService("bad")
		f.settle()
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("the service is gone, and still in quarantine is %+v", kept)
		}
	})
}

func TestWhatCameBeforeIsKnownInAnotherClass(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		good := x.has[api.RouteType]["80"]
		x.nak = "RDS"
		f.mesh.SetSidecar(map[string]string{"i": "0"}) // the proxy is of another class now
		f.mesh.EditRoutes()
		f.settle()
		x.read()
		if kept := f.p.Quarantine(); len(kept) != 1 || !kept[0].Replaced {
			t.Fatalf("in quarantine is %+v, want the route with the one before it instead", kept)
		}
		if x.has[api.RouteType]["80"] != good {
			t.Error("the proxy has another route than before")
		}
	})
}

func TestWhatWasBeforeARestartIsNotTakenAway(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.c.Close()
		time.Sleep(2 * time.Minute) // all is forgotten, as after a restart
		f.mesh.EditRoutes()
		f.settle()
		again := f.p.Connect(x.who, stream.Delta, "test")
		defer again.Close()
		back := &proxy{f: f, who: x.who, c: again, has: map[string]map[string]string{}, nak: "RDS", took: x.took}
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
			for _, got := range back.read() {
				if !strings.HasSuffix(got, "-0") {
					t.Errorf("something is taken away: %s", got)
				}
			}
		}
		if kept := f.p.Quarantine(); len(kept) != 1 || kept[0].Replaced || kept[0].Withheld {
			t.Errorf("in quarantine is %+v, want the route, with nothing known of before", kept)
		}
	})
}

// TestTheFirstToAnswerDoesNotDecide: a proxy that refuses before the others have answered does not keep it from them.
func TestTheFirstToAnswerDoesNotDecide(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, odd, late := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default")), f.connect(pushtest.Proxy(2, "default"))
		odd.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		sent, err := x.c.Next(now) // it is on its way
		if err != nil {
			t.Fatal(err)
		}
		odd.read()
		if kept := f.p.Quarantine(); len(kept) != 1 {
			t.Fatalf("in quarantine is %+v, want what is refused and nobody has taken yet", kept)
		}
		x.take(sent)
		x.c.Sent(sent, 1, 0)
		x.c.Request(stream.Request{TypeURL: sent.TypeURL, Nonce: sent.Nonce})
		f.settle()
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("in quarantine is %+v, which a proxy has taken", kept)
		}
		x.read()
		late.read()
		if got, want := late.has[api.RouteType]["80"], string(sent.Parts[0].Resources()[0].Body); got != want || x.has[api.RouteType]["80"] != want {
			t.Error("the others do not have what the first of them took")
		}
		odd.read()
		f.settle()
		f.want(odd.read())
		f.want(x.read())
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("in quarantine is %+v again", kept)
		}
	})
}

func TestWhatTheFirstRefusedAndTheNextTookIsNotInQuarantine(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		odd := f.join(pushtest.Proxy(0, "default"), "RDS")
		if kept := f.p.Quarantine(); len(kept) != 1 {
			t.Fatalf("in quarantine is %+v, want what the only proxy refuses", kept)
		}
		f.connect(pushtest.Proxy(1, "default"))
		if kept := f.p.Quarantine(); len(kept) != 0 {
			t.Errorf("in quarantine is %+v, which a proxy has taken", kept)
		}
		if n := f.p.Nacks(); len(n) != 1 || !n[0].Standing {
			t.Errorf("nacks %+v, want one that stands", n)
		}
		f.want(odd.read())
	})
}

func TestWhatIsGivenUpIsNotRefusedAnyMore(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x, other := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "default"))
		ask := stream.Request{TypeURL: api.RouteType, Subscribe: []string{"new"}}
		other.c.Request(ask)
		other.read() // takes it, so it is not kept from anybody
		x.nak = "RDS"
		x.c.Request(ask)
		x.read()
		if n := f.p.Nacks(); len(n) != 1 || !n[0].Standing {
			t.Fatalf("nacks %+v, want one that stands", n)
		}
		x.c.Request(stream.Request{TypeURL: api.RouteType, Unsubscribe: []string{"new"}})
		x.read()
		if f.p.Nacks()[0].Standing {
			t.Error("a refusal stands of what the proxy does not want any more")
		}
	})
}
