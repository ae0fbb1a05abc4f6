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

// wantReach fails the test unless objects have reached that many proxies.
func (f *fixture) wantReach(want map[config.Key]push.Reach) {
	f.t.Helper()
	asked := map[config.Key]struct{}{}
	for k := range want {
		asked[k] = struct{}{}
	}
	got := f.p.Distribution(asked)
	for k, w := range want {
		if got.Reach[k] != w {
			f.t.Errorf("%s reaches %+v, want %+v", k, got.Reach[k], w)
		}
	}
	if now := f.mesh.Current().Version; got.Snapshot != now {
		f.t.Errorf("everything is as in snapshot %d, want %d", got.Snapshot, now)
	}
}

func TestDistributionCountsWhoHasAcknowledged(t *testing.T) {
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

		// The other one is late for a change that this object has nothing to do with.
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
		// What is quarantined is not waited for: the version before it is acknowledged.
		f.wantReach(map[config.Key]push.Reach{edited: {Proxies: 2, Acknowledged: 1}})
		b.c.Close()
		a.read()
		f.wantReach(map[config.Key]push.Reach{edited: {Proxies: 1, Acknowledged: 1}})
	})
}

// A proxy that has come no further than its clusters has not got everything.
func TestDistributionOfAProxyThatStarts(t *testing.T) {
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
