package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// TestAcknowledgedWithoutResources: the server-first barrier may wait for a proxy that has just
// connected and was offered nothing. An Acknowledged event without resources is then ignored, also
// if the inbound configuration of the proxy is generated and the rest is not.
func TestAcknowledgedWithoutResources(t *testing.T) {
	h := newHarness(t, 2, rollout.Options{MaxJobs: 100})
	h.manual = true
	server := h.connect("p0", "default", false)
	h.mesh.SetEndpoints("s1", pushtest.Proxy(0, "default").Addresses[0].String()) // it serves s1 now
	h.wait(5 * time.Millisecond)
	for _, j := range slices.Clone(h.jobs) {
		if j.TypeURL() == api.ListenerType {
			h.jobs = slices.DeleteFunc(h.jobs, func(o *rollout.Job) bool { return o == j })
			h.step(h.finish(j))
		}
	}
	if server.offered != nil || len(h.jobs) == 0 {
		t.Fatal("the proxy was offered resources before all were generated")
	}
	h.step(rollout.Acknowledged{Client: &server.Client})
	h.manual = false
	h.step(h.generate()...)
	if server.offered == nil {
		t.Error("the proxy was offered nothing")
	}
}
