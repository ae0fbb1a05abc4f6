package cluster

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"

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

// TestHeadlessEDS checks the clusters of a headless Service and of a ServiceEntry with resolution
// NONE. Only the former has endpoints by EDS with PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES.
func TestHeadlessEDS(t *testing.T) {
	const services = `
{kind: Service, metadata: {name: db}, spec: {clusterIP: None, ports: [{name: tcp, port: 3306}]}}
---
{kind: ServiceEntry, metadata: {name: none}, spec: {hosts: [none.example.com], resolution: NONE, ports: [{number: 3306, name: tcp}]}}
`
	const headless, none = "outbound|3306||db.default.svc.cluster.local", "outbound|3306||none.example.com"
	for _, test := range []struct {
		name     string
		features snapshot.Features
		want     map[string]clusterv3.Cluster_LbPolicy // by cluster
		eds      bool                                  // of the headless Service
	}{
		{"default", snapshot.Features{}, map[string]clusterv3.Cluster_LbPolicy{
			headless: clusterv3.Cluster_CLUSTER_PROVIDED, none: clusterv3.Cluster_CLUSTER_PROVIDED,
		}, false},
		{"enabled", snapshot.Features{HeadlessEDS: true}, map[string]clusterv3.Cluster_LbPolicy{
			headless: clusterv3.Cluster_LEAST_REQUEST, none: clusterv3.Cluster_CLUSTER_PROVIDED,
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := fixture.NewWith(t, test.features, []byte(services), nil).View(fixture.Proxy(t, nil))
			for _, r := range NewGenerator().All(v) {
				c := golden.Decode(t, r).(*clusterv3.Cluster)
				if policy, ok := test.want[c.GetName()]; ok {
					eds := c.GetType() == clusterv3.Cluster_EDS
					if c.GetLbPolicy() != policy || eds != (test.eds && c.GetName() == headless) {
						t.Errorf("%s: type %s, policy %s; want policy %s", c.GetName(), c.GetType(), c.GetLbPolicy(), policy)
					}
					delete(test.want, c.GetName())
				}
			}
			if len(test.want) > 0 {
				t.Errorf("no clusters %v", test.want)
			}
		})
	}
}

// TestLocalityWeights checks which clusters balance load among localities by weight with
// ENABLE_LOCALITY_WEIGHTED_LB_CONFIG: all whose locality load balancing is neither disabled nor zone
// aware.
func TestLocalityWeights(t *testing.T) {
	const services = `
{kind: Service, metadata: {name: a}, spec: {clusterIP: 10.96.0.1, ports: [{name: tcp, port: 1}]}}
---
kind: DestinationRule
metadata: {name: a}
spec:
  host: a
  subsets:
  - {name: disabled, trafficPolicy: {loadBalancer: {localityLbSetting: {enabled: false}}}}
  - {name: zones, trafficPolicy: {loadBalancer: {zoneAwareLbSetting: {}}}}
`
	for _, features := range []snapshot.Features{{}, {LocalityWeights: true}} {
		v := fixture.NewWith(t, features, []byte(services), nil).View(fixture.Proxy(t, nil))
		for subset, want := range map[string]bool{"": features.LocalityWeights, "disabled": false, "zones": false} {
			list := named(t, NewGenerator().All(v), "outbound|1|"+subset+"|a.default.svc.cluster.local")
			c := golden.Decode(t, list[0]).(*clusterv3.Cluster)
			if got := c.GetCommonLbConfig().GetLocalityWeightedLbConfig() != nil; got != want {
				t.Errorf("LocalityWeights=%t, subset %q: weighted %t, want %t", features.LocalityWeights, subset, got, want)
			}
		}
	}
}

// TestLookupFamily checks in which address families proxies resolve the names of DNS clusters, and
// those below wildcard hosts.
func TestLookupFamily(t *testing.T) {
	const (
		entries = `
kind: ServiceEntry
metadata: {name: dns}
spec: {hosts: [dns.example.com], resolution: DNS, ports: [{number: 80, name: http}]}
---
kind: ServiceEntry
metadata: {name: wild}
spec: {hosts: ["*.example.org"], resolution: DYNAMIC_DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`
		only4 = "{addresses: [10.9.9.9]}"
		only6 = `{addresses: ["fd00::9"]}`
		both  = `{addresses: [10.9.9.9, "fd00::9"]}`
	)
	for _, test := range []struct {
		proxy    string
		features snapshot.Features
		want     clusterv3.Cluster_DnsLookupFamily
	}{
		{only6, snapshot.Features{}, clusterv3.Cluster_V6_ONLY},
		{only6, snapshot.Features{IPv4Outbound: true}, clusterv3.Cluster_ALL},
		{only6, snapshot.Features{DualStack: true}, clusterv3.Cluster_V6_ONLY},
		{only4, snapshot.Features{IPv4Outbound: true, DualStack: true}, clusterv3.Cluster_V4_ONLY},
		{both, snapshot.Features{IPv4Outbound: true}, clusterv3.Cluster_V4_PREFERRED},
		{both, snapshot.Features{DualStack: true}, clusterv3.Cluster_ALL},
	} {
		list := NewGenerator().All(fixture.NewWith(t, test.features, []byte(entries), nil).
			View(fixture.Proxy(t, []byte(test.proxy))))
		c := golden.Decode(t, named(t, list, "outbound|80||dns.example.com")[0]).(*clusterv3.Cluster)
		if got := c.GetDnsLookupFamily(); got != test.want {
			t.Errorf("%s, %+v: %s, want %s", test.proxy, test.features, got, test.want)
		}
		c = golden.Decode(t, named(t, list, "outbound|80||*.example.org")[0]).(*clusterv3.Cluster)
		var dynamic dfpclusterv3.ClusterConfig
		if err := c.GetClusterType().GetTypedConfig().UnmarshalTo(&dynamic); err != nil {
			t.Fatal(err)
		}
		if got := dynamic.GetDnsCacheConfig().GetDnsLookupFamily(); got != test.want {
			t.Errorf("below a wildcard, %s, %+v: %s, want %s", test.proxy, test.features, got, test.want)
		}
	}
}

// TestPanicThreshold checks that Envoy calls endpoints that are not ready only below
// minHealthPercent, and never where such endpoints are always sent.
func TestPanicThreshold(t *testing.T) {
	const services = `
{kind: Service, metadata: {name: any}, spec: {clusterIP: 10.96.0.1, ports: [{name: tcp, port: 1}]}}
---
kind: Service
metadata: {name: near}
spec: {clusterIP: 10.96.0.2, trafficDistribution: PreferClose, ports: [{name: tcp, port: 1}]}
---
kind: DestinationRule
metadata: {name: all}
spec: {host: "*.default.svc.cluster.local", trafficPolicy: {outlierDetection: {minHealthPercent: 50}}}
`
	for _, features := range []snapshot.Features{{}, {SendUnhealthy: true}} {
		list := NewGenerator().All(fixture.NewWith(t, features, []byte(services), nil).View(fixture.Proxy(t, nil)))
		for name, want := range map[string]float64{"any": 50, "near": 0} {
			if features.SendUnhealthy {
				want = 0
			}
			r := named(t, list, "outbound|1||"+name+".default.svc.cluster.local")[0]
			at := golden.Decode(t, r).(*clusterv3.Cluster).GetCommonLbConfig().GetHealthyPanicThreshold()
			if at == nil || at.GetValue() != want {
				t.Errorf("SendUnhealthy=%t, %s: panic threshold %v, want %v", features.SendUnhealthy, name, at, want)
			}
		}
	}
}
