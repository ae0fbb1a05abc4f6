package main

import (
	"math"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// applyProxySettings reads settings of listeners, routes, clusters and names; unset ones get their
// defaults, and invalid ones are errors of e. In Features the zero value is the default. So 0,
// which means no limit, jitter or timeout, is stored as -1, as negative durations are.
func (e *environment) applyProxySettings(f *snapshot.Features) {
	const name = "MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP"
	f.AcceptsPerEvent = snapshot.DefaultAcceptsPerEvent
	switch e.setInt(name, &f.AcceptsPerEvent); {
	case f.AcceptsPerEvent < 0 || f.AcceptsPerEvent > math.MaxInt32:
		e.addError(name, strconv.Itoa(f.AcceptsPerEvent), "want a number from 0 to 2147483647")
	case f.AcceptsPerEvent == 0:
		f.AcceptsPerEvent = -1
	}
	f.DNSJitter = snapshot.DefaultDNSJitter
	if e.setDuration("PILOT_DNS_JITTER_DURATION", &f.DNSJitter); f.DNSJitter <= 0 {
		f.DNSJitter = -1
	}
	f.HandshakeTimeout = snapshot.DefaultHandshakeTimeout
	e.setDuration("PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", &f.HandshakeTimeout)
	if f.HandshakeTimeout <= 0 {
		f.HandshakeTimeout = -1
	}
	f.InternalNetworks = e.boolOr("ENABLE_HCM_INTERNAL_NETWORKS", false)
	f.MergeForeignGateways = !e.boolOr("PILOT_ENABLE_STRICT_GATEWAY_MERGING", true)
	f.AnswerExpectContinue = !e.boolOr("ENABLE_100_CONTINUE_HEADERS", true)
	f.IPv4Outbound = e.boolOr("ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", false)
	f.DualStack = e.boolOr("ISTIO_DUAL_STACK", false)
	f.HeadlessEDS = e.boolOr("PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", false)
	f.LocalHeadlessNames = !e.boolOr("ENABLE_MULTICLUSTER_HEADLESS", true)
	f.LocalityWeights = e.boolOr("ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", false)
	f.RelativeHosts = !e.boolOr("PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", true)
	f.ShadowHosts = !e.boolOr("DISABLE_SHADOW_HOST_SUFFIX", true)
	f.TrackRemaining = !e.boolOr("DISABLE_TRACK_REMAINING_CB_METRICS", true)
}
