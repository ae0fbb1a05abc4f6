package rollout_test

import (
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// route returns the version of the route "80" that a client was offered.
func (c *client) route() string {
	for _, group := range c.offered.Groups(api.RouteType) {
		if r := group.Set().Get("80"); r != nil {
			return r.Version
		}
	}
	return ""
}

// quarantined returns a harness whose only client has refused the newest version of the route "80",
// that client, and the version that is served instead.
func quarantined(t *testing.T) (h *harness, c *client, good string) {
	t.Helper()
	h = newHarness(t, 3, rollout.Options{})
	c = h.connect("p0", "default", false)
	h.subscribe(c, api.RouteType, "80")
	h.acknowledge(c)
	good = c.route()
	h.mesh.EditRoutes()
	h.wait(5 * time.Millisecond)
	h.refuse(c, api.RouteType, "80")
	if c.route() != good || len(h.r.Quarantined()) != 1 {
		t.Fatal("the refused route is not quarantined")
	}
	return h, c, good
}

// TestQuarantineOutlastsOtherProducts: another route of the same producer does not bring back the
// refused one.
func TestQuarantineOutlastsOtherProducts(t *testing.T) {
	h, c, good := quarantined(t)
	h.subscribe(c, api.RouteType, "81")
	if c.route() != good {
		t.Error("the refused route is served again")
	}
}

// TestQuarantineEndsWhileGenerating: a Product whose generator ran while a quarantine ended serves
// what was released.
func TestQuarantineEndsWhileGenerating(t *testing.T) {
	h, c, good := quarantined(t)
	h.manual = true
	h.subscribe(c, api.RouteType, "81")
	h.wait(6 * time.Second)
	if len(h.r.Quarantined()) != 0 || c.route() != good {
		t.Fatal("the quarantine has not ended before the generator")
	}
	for range 3 {
		h.step(h.generate()...)
	}
	if c.route() == good {
		t.Error("the released route is not served")
	}
}
