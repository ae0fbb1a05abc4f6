package push_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

var (
	edited  = config.Key{Kind: api.VirtualService, Namespace: "default", Name: "edit"}
	service = config.Key{Kind: api.Service, Namespace: "default", Name: "s0"}
)

// wantReach fails the test unless each object has reached the wanted number of proxies.
func (f *fixture) wantReach(want map[config.Key]push.Reach) {
	f.t.Helper()
	asked := map[config.Key]struct{}{}
	for k := range want {
		asked[k] = struct{}{}
	}
	got := f.p.Reports().Distribution(asked)
	for k, w := range want {
		if got.Reach[k] != w {
			f.t.Errorf("%s: Reach = %+v, want %+v", k, got.Reach[k], w)
		}
	}
	if now := f.mesh.Current().Version; got.Snapshot != now {
		f.t.Errorf("Snapshot = %d, want %d", got.Snapshot, now)
	}
}

func TestDistributionCountsAcknowledgements(t *testing.T) {
	inBubble(t, 3, push.Options{}, func(f *fixture) {
		f.wantReach(map[config.Key]push.Reach{service: {}})
		a, b := f.connect(pushtest.Proxy(0, "default")), f.connect(pushtest.Proxy(1, "other"))
		f.wantReach(map[config.Key]push.Reach{service: {Proxies: 2, Acknowledged: 2}, edited: {}})

		f.mesh.EditRoutes()
		f.settle()
		f.wantReach(map[config.Key]push.Reach{service: {Proxies: 2, Acknowledged: 2}, edited: {Proxies: 2}})
		a.read()
		f.wantReach(
			map[config.Key]push.Reach{service: {Proxies: 2, Acknowledged: 2}, edited: {Proxies: 2, Acknowledged: 1}},
		)

		// The other proxy is behind because of a change that does not affect this object.
		b.read()
		f.mesh.SetEndpoints("s2", "10.3.3.3")
		f.settle()
		f.wantReach(map[config.Key]push.Reach{edited: {Proxies: 2, Acknowledged: 2}})
		b.read()

		b.nak = "RDS"
		f.mesh.EditRoutes()
		f.settle()
		b.read()
		f.decide()
		b.read()
		// A quarantined version is not waited for: the proxy has acknowledged the version before
		// it.
		f.wantReach(map[config.Key]push.Reach{edited: {Proxies: 2, Acknowledged: 1}})
		b.c.Close()
		a.read()
		f.wantReach(map[config.Key]push.Reach{edited: {Proxies: 1, Acknowledged: 1}})
	})
}

// A proxy that has received only its clusters so far counts as pending.
func TestDistributionDuringProxyStart(t *testing.T) {
	inBubble(t, 1, push.Options{}, func(f *fixture) {
		x := &proxy{f: f, who: pushtest.Proxy(0, "default"), has: map[string]map[string]string{}}
		x.c = f.p.Connect(x.who, stream.Delta, "test")
		defer x.c.Close()
		f.mesh.EditRoutes()
		f.settle()
		f.wantReach(map[config.Key]push.Reach{service: {Proxies: 1}})
		x.c.Request(stream.Request{TypeURL: api.ClusterType})
		f.wantReach(map[config.Key]push.Reach{service: {Proxies: 1}})
		x.read()
		f.wantReach(map[config.Key]push.Reach{service: {Proxies: 1, Acknowledged: 1}})
	})
}
