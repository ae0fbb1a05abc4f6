package server

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestOnDemandNeedsDelta: a delta client that fetches clusters on demand is at first sent no
// clusters of services. SotW cannot fetch them, so the setting is ignored there.
func TestOnDemandNeedsDelta(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		h := serve(t, 3, Options{})
		node := testNode(1)
		node.Metadata = metadata(t, `{"ISTIO_VERSION": "1.31.0", "MESHPILOT_ON_DEMAND": "true"}`)
		c := h.connect(mode, node)
		c.ask(api.ClusterType, nil, nil)
		_, sent := c.want(api.ClusterType).bodies[pushtest.ClusterName("s1")]
		if want := mode == stream.SotW; sent != want {
			t.Errorf("the cluster of a service is sent: %t, want %t", sent, want)
		}
		onDemand := bool(h.server.Connections()[0].Proxy.Metadata.OnDemand)
		if want := mode == stream.Delta; onDemand != want {
			t.Errorf("the proxy is served on demand: %t, want %t", onDemand, want)
		}
	})
}
