package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestProxySettings reads the environment variables of listeners, routes, clusters and names.
func TestProxySettings(t *testing.T) {
	defaults := snapshot.Features{
		AcceptsPerEvent: 1, DNSJitter: 100 * time.Millisecond, HandshakeTimeout: 15 * time.Second,
	}
	for _, test := range []struct {
		name, value string
		change      func(*snapshot.Features)
	}{
		{"", "", func(*snapshot.Features) {}},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "0", func(f *snapshot.Features) { f.AcceptsPerEvent = -1 }},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "8", func(f *snapshot.Features) { f.AcceptsPerEvent = 8 }},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "-1", nil},
		{"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", "4294967296", nil},
		{"PILOT_DNS_JITTER_DURATION", "0s", func(f *snapshot.Features) { f.DNSJitter = -1 }},
		{"PILOT_DNS_JITTER_DURATION", "1s", func(f *snapshot.Features) { f.DNSJitter = time.Second }},
		{"PILOT_DNS_JITTER_DURATION", "soon", nil},
		{"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", "0s", func(f *snapshot.Features) { f.HandshakeTimeout = -1 }},
		{"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", "1s", func(f *snapshot.Features) { f.HandshakeTimeout = time.Second }},
		{"ENABLE_HCM_INTERNAL_NETWORKS", "true", func(f *snapshot.Features) { f.InternalNetworks = true }},
		{"PILOT_ENABLE_STRICT_GATEWAY_MERGING", "false", func(f *snapshot.Features) { f.MergeForeignGateways = true }},
		{"ENABLE_100_CONTINUE_HEADERS", "false", func(f *snapshot.Features) { f.AnswerExpectContinue = true }},
		{"PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", "false", func(f *snapshot.Features) { f.RelativeHosts = true }},
		{"DISABLE_SHADOW_HOST_SUFFIX", "false", func(f *snapshot.Features) { f.ShadowHosts = true }},
		{"PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", "true", func(f *snapshot.Features) { f.HeadlessEDS = true }},
		{"ISTIO_DUAL_STACK", "true", func(f *snapshot.Features) { f.DualStack = true }},
		{"ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", "true", func(f *snapshot.Features) { f.IPv4Outbound = true }},
		{"ENABLE_MULTICLUSTER_HEADLESS", "false", func(f *snapshot.Features) { f.LocalHeadlessNames = true }},
		{"ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", "true", func(f *snapshot.Features) { f.LocalityWeights = true }},
		{"DISABLE_TRACK_REMAINING_CB_METRICS", "false", func(f *snapshot.Features) { f.TrackRemaining = true }},
	} {
		env := environment{lookup: func(name string) (string, bool) { return test.value, name == test.name }}
		var got snapshot.Features
		env.applyProxySettings(&got)
		if test.change == nil {
			if env.err == nil {
				t.Errorf("%s=%s is accepted", test.name, test.value)
			}
			continue
		}
		want := defaults
		test.change(&want)
		if diff := cmp.Diff(want, got); diff != "" || env.err != nil {
			t.Errorf("%s=%s: %v (-want +got):\n%s", test.name, test.value, env.err, diff)
		}
	}
}
