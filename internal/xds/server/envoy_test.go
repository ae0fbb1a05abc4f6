package server

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestEnvoyLosesNoRequest runs requests through a real Envoy while its configuration changes:
// clusters are added and used, changed in place and removed, each in one apply; endpoints change;
// the control plane restarts. No request may fail, Envoy may reject nothing, and nothing may stay
// warming.
func TestEnvoyLosesNoRequest(t *testing.T) {
	rounds := scorecard.BySize(longtest.Rounds(5, 20), 400, 10_000)
	check := scorecard.Check(t, 15, scorecard.Size("updates of each mode", 3*rounds))
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		envoy.RequireBinary(t)
		lab := newLab(t)
		lab.start()
		admin := runEnvoy(t, lab.addr, mode)
		requests := lab.load()

		edit := func(change func(*labState)) {
			lab.apply(change)
			lab.awaitAcks()
		}
		for i := range rounds {
			edit(func(s *labState) { // use a new cluster and remove the previous one
				delete(s.clusters, s.route)
				s.route = fmt.Sprint("v", i)
				s.clusters[s.route] = 5
			})
			edit(func(s *labState) { s.clusters[s.route] += i + 1 }) // change it in place
			edit(func(s *labState) { s.second = !s.second })         // and its endpoints
			if i%8 == 4 {
				lab.restart()
				lab.awaitAcks()
			}
		}
		good, bad := requests()
		check.Measured(mode.String()+" requests", good)
		check.Measured(mode.String()+" requests failed", len(bad))
		check.Measured(
			mode.String()+" clusters and listeners warming",
			admin.stat("cluster_manager.warming_clusters")+" and "+
				admin.stat("listener_manager.total_listeners_warming"),
		)
		t.Logf("%d requests, %d failed %v", good, len(bad), bad)
		if len(bad) > 0 || good < 20 {
			t.Errorf("%d of %d requests failed: %v", len(bad), good, bad)
		}
		for stat, want := range map[string]string{
			"cluster_manager.cds.update_rejected": "0", "listener_manager.lds.update_rejected": "0",
			"cluster_manager.warming_clusters": "0", "listener_manager.total_listeners_warming": "0",
			"cluster_manager.active_clusters": "3", // xds, base and the one in use
		} {
			if got := admin.stat(stat); got != want {
				t.Errorf("%s: %s, want %s", stat, got, want)
			}
		}
		if n := lab.pusher.Reports().Nacks(); len(n) > 0 {
			t.Errorf("Envoy rejected %+v", n)
		}
		before := admin.stat("cluster_manager.cluster_modified")
		lab.restart()
		lab.awaitAcks()
		if got := admin.stat("cluster_manager.cluster_modified"); got != before {
			t.Errorf("a restart of the control plane modified clusters: %s before, %s after", before, got)
		}
	})
}
