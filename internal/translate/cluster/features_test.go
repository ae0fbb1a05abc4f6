package cluster

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// TestFeatures checks what clusters follow of the settings that istiod has as environment
// variables.
func TestFeatures(t *testing.T) {
	const services = `
{kind: ServiceEntry, metadata: {name: dns}, spec: {hosts: [dns.example.com], resolution: DNS, ports: [{number: 80, name: http}]}}
---
{kind: ServiceEntry, metadata: {name: eds}, spec: {hosts: [eds.example.com], resolution: STATIC, ports: [{number: 80, name: http}]}}
`
	for _, tc := range []struct {
		name     string
		features snapshot.Features
		jitter   time.Duration
		track    bool
	}{
		{"default", snapshot.Features{}, 100 * time.Millisecond, false},
		{"PILOT_DNS_JITTER_DURATION=0", snapshot.Features{DNSJitter: -1}, 0, false},
		{"PILOT_DNS_JITTER_DURATION=3s", snapshot.Features{DNSJitter: 3 * time.Second}, 3 * time.Second, false},
		{
			"DISABLE_TRACK_REMAINING_CB_METRICS=false",
			snapshot.Features{TrackRemaining: true},
			100 * time.Millisecond,
			true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := fixture.NewWith(t, tc.features, []byte(services), nil).View(fixture.Proxy(t, nil))
			for _, r := range NewGenerator().All(v) {
				c := golden.Decode(t, r).(*clusterv3.Cluster)
				jitter := time.Duration(0)
				if c.GetType() == clusterv3.Cluster_STRICT_DNS {
					jitter = tc.jitter
				}
				if got := c.GetDnsJitter().AsDuration(); got != jitter { //nolint:staticcheck // what tools of Istio's users read
					t.Errorf("%s: dns_jitter %s, want %s", c.GetName(), got, jitter)
				}
				for _, limits := range c.GetCircuitBreakers().GetThresholds() {
					if limits.GetTrackRemaining() != tc.track {
						t.Errorf("%s: track_remaining %v", c.GetName(), limits.GetTrackRemaining())
					}
				}
			}
		})
	}
}
