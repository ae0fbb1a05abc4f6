package policy

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func pool(n int32) *networking.ConnectionPoolSettings {
	return &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: n}}
}

func lb(s networking.LoadBalancerSettings_SimpleLB) *networking.LoadBalancerSettings {
	return &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: s}}
}

func port(n uint32, p *networking.TrafficPolicy_PortTrafficPolicy) []*networking.TrafficPolicy_PortTrafficPolicy {
	p.Port = &networking.PortSelector{Number: n}
	return []*networking.TrafficPolicy_PortTrafficPolicy{p}
}

func TestOf(t *testing.T) {
	outlier := &networking.OutlierDetection{MaxEjectionPercent: 7}
	tls := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}
	host := &networking.TrafficPolicy{
		ConnectionPool:    pool(1),
		LoadBalancer:      lb(networking.LoadBalancerSettings_RANDOM),
		OutlierDetection:  outlier,
		Tls:               tls,
		RetryBudget:       &networking.TrafficPolicy_RetryBudget{MinRetryConcurrency: 4},
		PortLevelSettings: port(90, &networking.TrafficPolicy_PortTrafficPolicy{ConnectionPool: pool(9)}),
	}
	rule := &networking.DestinationRule{TrafficPolicy: host, Subsets: []*networking.Subset{
		{Name: "bare"},
		{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{
			ConnectionPool: &networking.ConnectionPoolSettings{
				Http: &networking.ConnectionPoolSettings_HTTPSettings{MaxRetries: 2},
			},
			PortLevelSettings: port(
				91,
				&networking.TrafficPolicy_PortTrafficPolicy{
					LoadBalancer: lb(networking.LoadBalancerSettings_ROUND_ROBIN),
				},
			),
		}},
		{Name: "v1", TrafficPolicy: &networking.TrafficPolicy{ConnectionPool: pool(100)}},
	}}
	withoutPorts := proto.CloneOf(host)
	withoutPorts.PortLevelSettings = nil
	withSubsetPool := proto.CloneOf(withoutPorts)
	withSubsetPool.ConnectionPool = rule.Subsets[1].TrafficPolicy.ConnectionPool
	budget := host.RetryBudget
	plaintext := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_DISABLE}
	mutual := &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{
		Tls:               &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL},
		PortLevelSettings: host.PortLevelSettings,
	}}

	for _, tc := range []struct {
		name   string
		rule   *networking.DestinationRule
		subset string
		port   uint32
		mesh   *meshconfig.MeshConfig_DefaultTrafficPolicy
		want   *networking.TrafficPolicy
	}{
		{name: "no rule", port: 80, want: &networking.TrafficPolicy{}},
		{name: "host", rule: rule, port: 80, want: withoutPorts},
		{
			name: "port settings inherit nothing but no automatic mutual TLS",
			rule: rule,
			port: 90,
			want: &networking.TrafficPolicy{ConnectionPool: pool(9), Tls: plaintext},
		},
		{
			name: "port settings beside mutual TLS of the mesh",
			rule: mutual,
			port: 90,
			want: &networking.TrafficPolicy{ConnectionPool: pool(9)},
		},
		{name: "subset without policy", rule: rule, subset: "bare", port: 80, want: withoutPorts},
		{name: "unknown subset", rule: rule, subset: "nowhere", port: 80, want: withoutPorts},
		{
			name:   "subset replaces a whole group, first of a name is used",
			rule:   rule,
			subset: "v1",
			port:   80,
			want:   withSubsetPool,
		},
		{name: "subset over the host's port settings", rule: rule, subset: "v1", port: 90, want: &networking.TrafficPolicy{
			ConnectionPool: rule.Subsets[1].TrafficPolicy.ConnectionPool, Tls: plaintext}},
		{name: "port settings of a subset take nothing of the four groups", rule: rule, subset: "v1", port: 91, want: &networking.TrafficPolicy{
			LoadBalancer: lb(networking.LoadBalancerSettings_ROUND_ROBIN), RetryBudget: budget, Tls: plaintext}},
		{name: "mesh defaults", port: 80, mesh: &meshconfig.MeshConfig_DefaultTrafficPolicy{
			ConnectionPool:   pool(3),
			OutlierDetection: outlier,
		},
			want: &networking.TrafficPolicy{ConnectionPool: pool(3), OutlierDetection: outlier}},
		{name: "mesh defaults only for unset fields", rule: rule, port: 90, mesh: &meshconfig.MeshConfig_DefaultTrafficPolicy{
			ConnectionPool:   pool(3),
			OutlierDetection: outlier,
		},
			want: &networking.TrafficPolicy{ConnectionPool: pool(9), OutlierDetection: outlier, Tls: plaintext}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := proto.CloneOf(tc.rule)
			got := Of(&meshconfig.MeshConfig{DefaultTrafficPolicy: tc.mesh}, tc.rule, tc.subset, tc.port)
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !proto.Equal(before, tc.rule) {
				t.Error("the rule was changed")
			}
		})
	}
}

func TestLocalityOf(t *testing.T) {
	off := &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(false)}
	on := &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)}
	distribute := &networking.LocalityLoadBalancerSetting{
		Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: "*"}},
	}
	failover := &networking.LocalityLoadBalancerSetting{
		Failover: []*networking.LocalityLoadBalancerSetting_Failover{{From: "a", To: "b"}},
	}
	for _, tc := range []struct {
		name             string
		mesh, rule       *networking.LocalityLoadBalancerSetting
		outlier          bool
		distribution     string
		shapes, weighted bool
	}{
		{name: "nothing"},
		{name: "mesh default without outlier detection", mesh: on},
		{name: "mesh default with outlier detection", mesh: on, outlier: true, shapes: true},
		{name: "mesh off", mesh: off, outlier: true},
		{name: "rule off over mesh on", mesh: on, rule: off, outlier: true},
		{name: "rule on over mesh off", mesh: off, rule: on, outlier: true, shapes: true},
		{name: "failover without outlier detection", rule: failover},
		{name: "failover", rule: failover, outlier: true, shapes: true, weighted: true},
		{name: "distribute", rule: distribute, shapes: true, weighted: true},
		{
			name:     "distribute with outlier detection has no priorities",
			rule:     distribute,
			outlier:  true,
			shapes:   true,
			weighted: true,
		},
		{
			name:         "traffic distribution needs no outlier detection",
			mesh:         on,
			distribution: "PreferSameZone",
			shapes:       true,
			weighted:     true,
		},
		{name: "traffic distribution by its older name", distribution: "PreferClose", shapes: true, weighted: true},
		{name: "rule over traffic distribution", rule: off, distribution: "PreferSameNode", outlier: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := new(networking.TrafficPolicy)
			if tc.rule != nil {
				p.LoadBalancer = &networking.LoadBalancerSettings{LocalityLbSetting: tc.rule}
			}
			if tc.outlier {
				p.OutlierDetection = new(networking.OutlierDetection)
			}
			l := LocalityOf(
				&meshconfig.MeshConfig{LocalityLbSetting: tc.mesh},
				p,
				&mesh.Service{TrafficDistribution: tc.distribution},
			)
			if l.Shapes() != tc.shapes || l.Weighted() != tc.weighted {
				t.Errorf("shapes %v, weighted %v; want %v, %v", l.Shapes(), l.Weighted(), tc.shapes, tc.weighted)
			}
			if l.Failover && len(l.Setting.GetDistribute()) > 0 {
				t.Error("priorities and distribution at once")
			}
		})
	}
}

func TestTunnelOf(t *testing.T) {
	tunnel := func(protocol, host string, port uint32) *networking.TrafficPolicy {
		return &networking.TrafficPolicy{
			Tunnel: &networking.TrafficPolicy_TunnelSettings{Protocol: protocol, TargetHost: host, TargetPort: port},
		}
	}
	rule := &networking.DestinationRule{
		TrafficPolicy: tunnel("", "a.example.com", 443),
		Subsets: []*networking.Subset{
			{Name: "own", TrafficPolicy: tunnel("POST", "2001:db8::1", 80)},
			{Name: "none"},
		},
	}
	for subset, want := range map[string]Tunnel{
		"": {Target: "a.example.com:443"}, "own": {Target: "[2001:db8::1]:80", Post: true}, "none": {}, "unknown": {},
	} {
		if got := TunnelOf(rule, subset); got != want {
			t.Errorf("subset %q: %+v, want %+v", subset, got, want)
		}
	}
	if got := TunnelOf(nil, ""); got != (Tunnel{}) {
		t.Errorf("without a rule: %+v", got)
	}
}

func TestZones(t *testing.T) {
	own := func(z *networking.ZoneAwareLoadBalancerSetting) *networking.TrafficPolicy {
		return &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{ZoneAwareLbSetting: z}}
	}
	on := new(networking.ZoneAwareLoadBalancerSetting)
	off := &networking.ZoneAwareLoadBalancerSetting{Enabled: wrapperspb.Bool(false)}
	distribute := &networking.LocalityLoadBalancerSetting{
		Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: "a", To: map[string]uint32{"a": 100}}},
	}
	local := &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{LocalityLbSetting: distribute}}
	for _, tt := range []struct {
		name     string
		mesh     *meshconfig.MeshConfig
		policy   *networking.TrafficPolicy
		zones    *networking.ZoneAwareLoadBalancerSetting
		failover bool
	}{
		{"the rule's", nil, own(on), on, true},
		{"the rule's, off", &meshconfig.MeshConfig{ZoneAwareLbSetting: on}, own(off), off, false},
		{"the mesh's", &meshconfig.MeshConfig{ZoneAwareLbSetting: on, LocalityLbSetting: distribute}, nil, on, true},
		{"a rule for localities before the mesh's", &meshconfig.MeshConfig{ZoneAwareLbSetting: on}, local, nil, false},
	} {
		l := LocalityOf(tt.mesh, tt.policy, new(mesh.Service))
		if l.Zones != tt.zones || l.Failover != tt.failover || l.Zones != nil && l.Weighted() {
			t.Errorf("%s: %+v, weighted %v", tt.name, l, l.Weighted())
		}
	}
}
