package bootstrap

import (
	"net/netip"
	"testing"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestStatsOfPodIP tests that {pod_ip} in a pattern is replaced by each address of the proxy.
func TestStatsOfPodIP(t *testing.T) {
	in := input(t)
	in.Config.ProxyStatsMatcher = &meshconfig.ProxyConfig_ProxyStatsMatcher{
		InclusionPrefixes: []string{"http.{pod_ip}_"}, InclusionSuffixes: []string{"{pod_ip}.{pod_ip}"},
	}
	in.Node.Metadata = mesh.NodeMetadata{Annotations: map[string]string{"sidecar.istio.io/statsInclusionRegexps": "^{pod_ip}$"}}
	patterns := func() map[string]bool {
		matcher, warnings := statsMatcher(in)
		if len(warnings) > 0 {
			t.Error(warnings)
		}
		found := map[string]bool{}
		for _, p := range matcher.GetInclusionList().GetPatterns() {
			switch m := p.GetMatchPattern().(type) {
			case *matcherv3.StringMatcher_Prefix:
				found["prefix "+m.Prefix] = true
			case *matcherv3.StringMatcher_Suffix:
				found["suffix "+m.Suffix] = true
			case *matcherv3.StringMatcher_SafeRegex:
				found["regexp "+m.SafeRegex.GetRegex()] = true
			}
		}
		return found
	}
	without := len(patterns())
	in.Node.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	got := patterns()
	want := []string{
		"prefix http.10.0.0.1_", "prefix http.fd00::1_", "suffix 10.0.0.1.10.0.0.1", "suffix fd00::1.fd00::1",
		"regexp ^10.0.0.1$", "regexp ^fd00::1$",
	}
	if len(got) != without+len(want) {
		t.Errorf("%d patterns without an address, and with addresses %v, want %v", without, got, want)
	}
	for _, p := range want {
		if !got[p] {
			t.Errorf("no %s", p)
		}
	}
}
