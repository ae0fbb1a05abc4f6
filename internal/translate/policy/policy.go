package policy

import (
	"net"
	"strconv"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Of returns the policy of the cluster of a port and a subset. For "", and for a subset that rule
// does not have, it is that of the whole host. mesh and rule may be nil. The result is never nil
// and has no port level settings.
//
// A group of settings (connectionPool, loadBalancer, outlierDetection, tls …) is never merged from
// two levels: a subset's group replaces the host's group. Port level settings override all four of
// these groups, even if they leave it unset. If connectionPool or outlierDetection remains unset,
// the mesh's default applies (MeshConfig.defaultTrafficPolicy). Where port level settings thus
// remove tls settings other than ISTIO_MUTUAL (optsOutOfMTLS), the mode is DISABLE: there is no
// automatic mutual TLS.
func Of(
	mesh *meshconfig.MeshConfig,
	rule *networking.DestinationRule,
	subset string,
	port uint32,
) *networking.TrafficPolicy {
	out := new(networking.TrafficPolicy)
	overlayLevel(out, rule.GetTrafficPolicy(), port)
	if s := config.Subset(rule, subset); s != nil {
		overlayLevel(out, s.GetTrafficPolicy(), port)
	}
	if out.Tls == nil && optsOutOfMTLS(rule, subset, port) {
		out.Tls = &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_DISABLE}
	}
	defaults := mesh.GetDefaultTrafficPolicy()
	if out.ConnectionPool == nil {
		out.ConnectionPool = defaults.GetConnectionPool()
	}
	if out.OutlierDetection == nil {
		out.OutlierDetection = defaults.GetOutlierDetection()
	}
	return out
}

// optsOutOfMTLS reports whether the nearest TLS settings of the port and the subset, or else of the
// host, have another mode than ISTIO_MUTUAL. On each level the port's are nearer than the level's
// own.
func optsOutOfMTLS(rule *networking.DestinationRule, subset string, port uint32) bool {
	for _, level := range []*networking.TrafficPolicy{
		config.Subset(rule, subset).GetTrafficPolicy(), rule.GetTrafficPolicy(),
	} {
		tls := level.GetTls()
		for _, p := range level.GetPortLevelSettings() {
			if p.GetPort().GetNumber() == port && p.Tls != nil {
				tls = p.Tls
			}
		}
		if tls != nil {
			return tls.GetMode() != networking.ClientTLSSettings_ISTIO_MUTUAL
		}
	}
	return false
}

// overlayLevel replaces settings of out by the settings of level, which may be nil, for a port. If
// level has port level settings for the port, these replace connectionPool, loadBalancer,
// outlierDetection and tls of out, even by nothing, and its other settings are ignored.
func overlayLevel(out, level *networking.TrafficPolicy, port uint32) {
	if level == nil {
		return
	}
	for _, p := range level.PortLevelSettings {
		if p.GetPort().GetNumber() == port {
			out.ConnectionPool, out.LoadBalancer = p.ConnectionPool, p.LoadBalancer
			out.OutlierDetection, out.Tls = p.OutlierDetection, p.Tls
			return
		}
	}
	replaceIfSet(&out.ConnectionPool, level.ConnectionPool)
	replaceIfSet(&out.LoadBalancer, level.LoadBalancer)
	replaceIfSet(&out.OutlierDetection, level.OutlierDetection)
	replaceIfSet(&out.Tls, level.Tls)
	replaceIfSet(&out.Tunnel, level.Tunnel)
	replaceIfSet(&out.ProxyProtocol, level.ProxyProtocol)
	replaceIfSet(&out.RetryBudget, level.RetryBudget)
}

// replaceIfSet sets *to to by, unless by is nil.
func replaceIfSet[T any](to **T, by *T) {
	if by != nil {
		*to = by
	}
}

// Tunnel configures how connections to a cluster are tunnelled in HTTP requests to a forward proxy,
// which the endpoints of the cluster are (TrafficPolicy.TunnelSettings). The zero value is no
// tunnel. Only TCP proxies of listeners use it; HTTP requests are not tunnelled.
type Tunnel struct {
	// Target is the address that the forward proxy connects to, "host:port".
	Target string
	// Post uses POST instead of CONNECT.
	Post bool
}

// TunnelOf returns the tunnel of the cluster of a subset, or of the whole host if subset is "";
// rule may be nil. The result is zero without one. A subset does not inherit the host's tunnel, and
// port level settings have none.
func TunnelOf(rule *networking.DestinationRule, subset string) Tunnel {
	policy := rule.GetTrafficPolicy()
	if subset != "" {
		policy = config.Subset(rule, subset).GetTrafficPolicy()
	}
	t := policy.GetTunnel()
	if t == nil {
		return Tunnel{}
	}
	return Tunnel{
		Target: net.JoinHostPort(t.GetTargetHost(), strconv.FormatUint(uint64(t.GetTargetPort()), 10)),
		Post:   t.GetProtocol() == "POST",
	}
}
