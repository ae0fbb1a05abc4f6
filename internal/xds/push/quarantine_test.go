package push_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
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

func TestWhatHasNoEarlierVersionIsLeftOut(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		x := f.connect(pushtest.Proxy(0, "default"))
		x.nak = "CDS"
		f.mesh.AddService("bad")
		f.settle()
		x.read()
		if kept := f.p.Quarantine(); len(kept) != 1 || kept[0].Name != pushtest.ClusterName("bad") || kept[0].Replaced {
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
