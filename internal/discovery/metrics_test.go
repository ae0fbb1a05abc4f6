package discovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// series returns an error unless all lines are among a control plane's metrics.
func (c *controlPlane) series(lines ...string) error {
	body, err := c.get("/metrics")
	if err != nil {
		return err
	}
	for _, l := range lines {
		if !strings.Contains("\n"+body, "\n"+l+"\n") {
			return fmt.Errorf("no line %q", l)
		}
	}
	return nil
}

// TestMetricsShowEachStep checks that connects, pushes, edits and deletions change the metrics that
// operators chart.
func TestMetricsShowEachStep(t *testing.T) {
	c := start(t, map[string]string{"services.yaml": services(2), "rule.yaml": fmt.Sprintf(rule, "first")})
	one, two := c.connect("client", "10.2.0.1"), c.connect("client-2", "10.2.0.2")
	c.eventually("the start shows", func() error {
		if one.VersionOf(api.RouteType, "80") == "" || two.VersionOf(api.RouteType, "80") == "" {
			return errors.New("no routes yet that could change")
		}
		return c.series(
			`pilot_services 2`, `pilot_virt_services 1`, `pilot_inbound_updates{type="svc"} 2`, `pilot_inbound_updates{type="config"} 1`,
			`pilot_k8s_cfg_events{event="add",type="VirtualService"} 1`, `pilot_push_triggers{type="global"} 1`, `pilot_xds_pushes{type="cds"} 2`,
			`meshpilot_proxy_classes 1`, `pilot_pushcontext_init_seconds_count 1`,
		)
	})
	c.write("rule.yaml", fmt.Sprintf(rule, "second"))
	c.eventually("an edit shows", func() error {
		return c.series(
			`pilot_k8s_cfg_events{event="update",type="VirtualService"} 1`, `pilot_inbound_updates{type="config"} 2`,
			`pilot_push_triggers{type="config"} 1`, `pilot_proxy_convergence_time_count 2`,
		)
	})
	if err := os.Remove(filepath.Join(c.dir, "rule.yaml")); err != nil {
		t.Fatal(err)
	}
	c.eventually("a deletion shows", func() error {
		return c.series(`pilot_virt_services 0`, `pilot_k8s_cfg_events{event="delete",type="VirtualService"} 1`)
	})
}
