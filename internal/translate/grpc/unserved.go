package grpc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// report collects what gRPC applications do not support of one object, as Warnings without Origin.
type report struct {
	key  config.Key
	list []config.Problem
}

// addWarning adds a Warning about a field of the object. format and args are its reason. The reason
// begins with "gRPC applications without a proxy: ".
func (r *report) addWarning(field, format string, args ...any) {
	r.list = append(r.list, config.Problem{
		Code:     code.FieldWithoutEffect,
		Key:      r.key,
		Field:    field,
		Severity: config.Warning,
		Reason:   "gRPC applications without a proxy: " + fmt.Sprintf(format, args...),
	})
}

// addUnhonoured adds a Warning for the field of each of found. All have the same Reason: the field
// has no effect on the calls of gRPC applications.
func (r *report) addUnhonoured(found []config.Problem) {
	for _, p := range found {
		r.addWarning(p.Field, "it has no effect on their calls")
	}
}

// servedRoutes returns the fields of a VirtualService that gRPC clients honour, that do not concern
// their calls, or that unservedRoutes reports.
func servedRoutes() config.Fields {
	return config.Fields{
		"hosts", "gateways", "exportTo", "tls", "tcp",
		"http.name", "http.match", "http.delegate", "http.timeout", "http.fault",
		"http.retries.attempts", "http.retries.retryOn", "http.retries.backoff",
		"http.route.destination", "http.route.weight", "http.redirect", "http.directResponse",
	}
}

// unservedRoutes returns a Warning for each setting of a VirtualService that gRPC clients do not
// support (proposals A28, A31, A33, A44). Examples are matches of the authority or of pseudo
// headers, redirects, direct responses, and retry conditions that no client knows. k is its key.
func unservedRoutes(k config.Key, vs *networking.VirtualService) []config.Problem {
	r := &report{key: k}
	for i, h := range vs.GetHttp() {
		at := fmt.Sprintf("spec.http[%d]", i)
		for j, m := range h.GetMatch() {
			if m.GetAuthority() != nil {
				r.addWarning(
					fmt.Sprintf("%s.match[%d].authority", at, j),
					"they do not match the authority: no call of theirs meets it",
				)
			}
			for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
				if isUnknownHeader(name) {
					r.addWarning(
						fmt.Sprintf("%s.match[%d].headers[%s]", at, j, name),
						"they match the metadata of calls only: no call of theirs meets it",
					)
				}
			}
		}
		if h.GetRedirect() != nil {
			r.addWarning(at+".redirect", "calls that come here end with UNAVAILABLE")
		}
		if h.GetDirectResponse() != nil {
			r.addWarning(at+".directResponse", "calls that come here end with UNAVAILABLE")
		}
		if on := h.GetRetries().GetRetryOn(); on != "" && h.GetRetries().GetAttempts() > 0 && !retriesOn(on) {
			r.addWarning(
				at+".retries.retryOn",
				"they retry only on cancelled, deadline-exceeded, internal, resource-exhausted and unavailable, none of which is listed: requests are not retried",
			)
		}
	}
	r.addUnhonoured(servedRoutes().Unhonoured(vs))
	return r.list
}

// retriesOn reports whether gRPC clients support at least one of the comma-separated conditions of
// retryOn.
func retriesOn(on string) bool {
	known := []string{"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"}
	return slices.ContainsFunc(
		strings.Split(on, ","),
		func(s string) bool { return slices.Contains(known, strings.ToLower(strings.TrimSpace(s))) },
	)
}

// servedTraffic returns the paths of the fields of a traffic policy that gRPC clients honour, such
// as http2MaxRequests, or that checkLevel reports.
func servedTraffic() config.Fields {
	return config.Fields{
		"port", "loadBalancer.simple", "loadBalancer.consistentHash",
		"loadBalancer.localityLbSetting", "connectionPool.http.http2MaxRequests",
		"outlierDetection", "tls", "portLevelSettings",
	}
}

// unservedDestination returns a Warning for each setting of a DestinationRule that gRPC clients do
// not support (proposals A32, A42, A50). k is its key.
func unservedDestination(k config.Key, rule *networking.DestinationRule) []config.Problem {
	r := &report{key: k}
	for field, p := range config.TrafficPolicies(rule) {
		r.checkTraffic(field, p)
	}
	return r.list
}

// checkTraffic adds Warnings for the settings of a policy and its port level settings that gRPC
// clients do not support. at is its path; p may be nil.
func (r *report) checkTraffic(at string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	r.checkLevel(at, p)
	for i, s := range p.GetPortLevelSettings() {
		r.checkLevel(fmt.Sprintf("%s.portLevelSettings[%d]", at, i), s)
	}
	for _, f := range servedTraffic().Unhonoured(p) {
		r.addWarning(at+strings.TrimPrefix(f.Field, "spec"), "it has no effect on their calls")
	}
}

// policyLevel is the common interface of a policy and its port level settings.
type policyLevel interface {
	GetTls() *networking.ClientTLSSettings
	GetLoadBalancer() *networking.LoadBalancerSettings
	GetOutlierDetection() *networking.OutlierDetection
}

// checkLevel adds Warnings for what gRPC clients do not support in a policy; at is its path. These
// are the TLS modes SIMPLE and MUTUAL, load balancers other than ROUND_ROBIN and hashes of headers,
// and any outlier detection.
func (r *report) checkLevel(at string, l policyLevel) {
	switch l.GetTls().GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		r.addWarning(
			at+".tls.mode",
			"they have no certificates but the mesh's (ISTIO_MUTUAL), and refuse this: their calls fail",
		)
	default:
	}
	switch b := l.GetLoadBalancer(); b.GetSimple() {
	case networking.LoadBalancerSettings_UNSPECIFIED, networking.LoadBalancerSettings_ROUND_ROBIN:
		if h := b.GetConsistentHash(); h.GetHttpCookie() != nil || h.GetUseSourceIp() ||
			h.GetHttpQueryParameterName() != "" {
			r.addWarning(
				at+".loadBalancer.consistentHash",
				"they hash by the metadata of calls only (httpHeaderName): where a call goes is left to chance",
			)
		}
	default:
		r.addWarning(at+".loadBalancer.simple", "they have ROUND_ROBIN, or consistentHash")
	}
	if l.GetOutlierDetection() != nil {
		r.addWarning(
			at+".outlierDetection",
			"they do not support consecutive errors: no endpoint is ejected for them",
		)
	}
}
