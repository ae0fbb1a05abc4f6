package grpc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// report gathers what gRPC applications do not get of one object, as Warnings without Origin.
type report struct {
	key  config.Key
	list []config.Problem
}

func (r *report) add(field, format string, args ...any) {
	r.list = append(r.list, config.Problem{
		Key: r.key, Field: field, Severity: config.Warning, Reason: "gRPC applications without a proxy: " + fmt.Sprintf(format, args...),
	})
}

// rest adds what is set in a spec, and neither served nor told of.
func (r *report) rest(found []config.Problem) {
	for _, p := range found {
		r.add(p.Field, "it has no effect on their calls")
	}
}

// servedRoutes are the fields of a VirtualService that gRPC's clients follow, or that are no matter of their calls, or that
// unservedRoutes tells of.
func servedRoutes() config.Fields {
	return config.Fields{
		"hosts", "gateways", "exportTo", "tls", "tcp",
		"http.name", "http.match", "http.delegate", "http.timeout", "http.fault", "http.retries.attempts", "http.retries.retryOn", "http.retries.backoff",
		"http.route.destination", "http.route.weight", "http.redirect", "http.directResponse",
	}
}

// unservedRoutes gives what of a VirtualService gRPC's clients do not follow (proposals A28, A31, A33, A44).
func unservedRoutes(k config.Key, vs *networking.VirtualService) []config.Problem {
	r := &report{key: k}
	for i, h := range vs.GetHttp() {
		at := fmt.Sprintf("spec.http[%d]", i)
		for j, m := range h.GetMatch() {
			if m.GetAuthority() != nil {
				r.add(fmt.Sprintf("%s.match[%d].authority", at, j), "they do not match the authority: no call of theirs meets it")
			}
			for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
				if unknownHeader(name) {
					r.add(fmt.Sprintf("%s.match[%d].headers[%s]", at, j, name), "they match the metadata of calls only: no call of theirs meets it")
				}
			}
		}
		if h.GetRedirect() != nil {
			r.add(at+".redirect", "calls that come here end with UNAVAILABLE")
		}
		if h.GetDirectResponse() != nil {
			r.add(at+".directResponse", "calls that come here end with UNAVAILABLE")
		}
		if on := h.GetRetries().GetRetryOn(); on != "" && h.GetRetries().GetAttempts() > 0 && !retried(on) {
			r.add(at+".retries.retryOn", "they retry on cancelled, deadline-exceeded, internal, resource-exhausted and unavailable only, which are not among these: nothing is retried")
		}
	}
	r.rest(servedRoutes().Unhonoured(vs))
	return r.list
}

// retried says whether gRPC's clients know one of the conditions.
func retried(on string) bool {
	known := []string{"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"}
	return slices.ContainsFunc(strings.Split(on, ","), func(s string) bool { return slices.Contains(known, strings.ToLower(strings.TrimSpace(s))) })
}

// servedTraffic are the fields of a traffic policy that gRPC's clients follow, or that unservedTraffic tells of.
func servedTraffic() config.Fields {
	return config.Fields{
		"port", "loadBalancer.simple", "loadBalancer.consistentHash", "loadBalancer.localityLbSetting", "connectionPool.http.http2MaxRequests",
		"outlierDetection", "tls", "portLevelSettings",
	}
}

// unservedDestination gives what of a DestinationRule gRPC's clients do not follow (proposals A32, A42, A50).
func unservedDestination(k config.Key, rule *networking.DestinationRule) []config.Problem {
	r := &report{key: k}
	for field, p := range config.TrafficPolicies(rule) {
		r.traffic(field, p)
	}
	return r.list
}

func (r *report) traffic(at string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	r.level(at, p)
	for i, s := range p.GetPortLevelSettings() {
		r.level(fmt.Sprintf("%s.portLevelSettings[%d]", at, i), s)
	}
	for _, f := range servedTraffic().Unhonoured(p) {
		r.add(at+strings.TrimPrefix(f.Field, "spec"), "it has no effect on their calls")
	}
}

// level is what a policy and its port level settings have in common.
type level interface {
	GetTls() *networking.ClientTLSSettings
	GetLoadBalancer() *networking.LoadBalancerSettings
	GetOutlierDetection() *networking.OutlierDetection
}

func (r *report) level(at string, l level) {
	switch l.GetTls().GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		r.add(at+".tls.mode", "they have no certificates but the mesh's (ISTIO_MUTUAL), and refuse this: their calls fail")
	default:
	}
	switch b := l.GetLoadBalancer(); b.GetSimple() {
	case networking.LoadBalancerSettings_UNSPECIFIED, networking.LoadBalancerSettings_ROUND_ROBIN:
		if h := b.GetConsistentHash(); h.GetHttpCookie() != nil || h.GetUseSourceIp() || h.GetHttpQueryParameterName() != "" {
			r.add(at+".loadBalancer.consistentHash", "they hash by the metadata of calls only (httpHeaderName): where a call goes is left to chance")
		}
	default:
		r.add(at+".loadBalancer.simple", "they have ROUND_ROBIN, or consistentHash")
	}
	if l.GetOutlierDetection() != nil {
		r.add(at+".outlierDetection", "they do not count errors one after the other: no endpoint is left out for them")
	}
}
