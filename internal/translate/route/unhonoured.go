package route

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// Unhonoured returns a Warning for every setting of a valid VirtualService that has no effect, in
// HTTP and TCP routes, or nil. Each has a Field ("spec.http[0].fault.delay.exponentialDelay") and a
// Reason; the caller adds Key and Origin. A test of the descriptor checks that no field is missing
// here.
func Unhonoured(vs *networking.VirtualService) []config.Problem {
	var w warnings
	for i, r := range vs.GetHttp() {
		w.checkRoute(fmt.Sprintf("http[%d]", i), vs, r)
	}
	for i, r := range vs.GetTcp() {
		for j, m := range r.GetMatch() {
			if m.GetSourceSubnet() != "" {
				w.addWarning(
					fmt.Sprintf("tcp[%d].match[%d].sourceSubnet", i, j),
					"is not honoured, as in Istio: connections are not matched by the caller's address, use sourceLabels or sourceNamespace",
				)
			}
		}
	}
	return w.list
}

// warnings collects Problems.
type warnings struct{ list []config.Problem }

// addWarning adds a Warning about the field "spec."+field.
func (w *warnings) addWarning(field, reason string) {
	w.list = append(w.list, config.Problem{Code: code.FieldWithoutEffect, Field: "spec." + field, Reason: reason,
		Severity: config.Warning})
}

// checkRoute adds the Warnings of one HTTP route; path is its path. They are about claims in
// matches that are not only for gateways, headers of the route and its destinations, and faults.
func (w *warnings) checkRoute(path string, vs *networking.VirtualService, r *networking.HTTPRoute) {
	for i, m := range r.GetMatch() {
		if at := fmt.Sprintf("%s.match[%d]", path, i); !atGateways(vs, m) {
			w.checkClaims(at+".headers", m.GetHeaders(), "never")
			w.checkClaims(at+".withoutHeaders", m.GetWithoutHeaders(), "always")
		}
	}
	w.checkHeaders(path+".headers", r.GetHeaders())
	for i, d := range r.GetRoute() {
		w.checkHeaders(fmt.Sprintf("%s.route[%d].headers", path, i), d.GetHeaders())
	}
	w.checkFault(path+".fault", r.GetFault())
}

// atGateways reports whether a match may apply to a gateway, where tokens are validated before
// requests are routed. It returns true for a VirtualService without hosts: it is a delegate, whose
// root decides.
func atGateways(vs *networking.VirtualService, m *networking.HTTPMatchRequest) bool {
	gateways := vs.GetGateways()
	if len(m.GetGateways()) > 0 {
		gateways = m.GetGateways()
	}
	// of a delegate, whose root decides
	return slices.ContainsFunc(gateways, func(name string) bool { return name != snapshot.MeshGateway }) ||
		len(vs.GetHosts()) == 0
}

// checkClaims adds a Warning for each match of a token claim in headers. Sidecars do not validate
// tokens before they route, so the match always holds or never does: holds is "always" or "never".
func (w *warnings) checkClaims(path string, headers map[string]*networking.StringMatch, holds string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if _, ok := token.RoutingClaim(name); ok {
			w.addWarning(
				path+"["+name+"]",
				"tokens are validated only at gateways, not in outbound routes of sidecars: the match "+holds+" holds",
			)
		}
	}
}

// checkFault adds a Warning for each kind of fault that Envoy does not support; path is the path of
// f.
func (w *warnings) checkFault(path string, f *networking.HTTPFaultInjection) {
	if f.GetDelay().GetExponentialDelay() != nil {
		w.addWarning(path+".delay.exponentialDelay", "Envoy supports only fixed delays: requests are not delayed")
	}
	if f.GetAbort().GetHttp2Error() != "" {
		w.addWarning(path+".abort.http2Error",
			"Envoy aborts only with an HTTP or gRPC status: requests are not aborted")
	}
}

// checkHeaders adds a Warning for each operation on a header that Envoy does not let be changed
// (isReserved). It accepts setting or adding the host of a request, which is translated to a host
// rewrite, but not removing it. path is the path of h.
func (w *warnings) checkHeaders(path string, h *networking.Headers) {
	for _, side := range []struct {
		name    string
		ops     *networking.Headers_HeaderOperations
		request bool
	}{{".request", h.GetRequest(), true}, {".response", h.GetResponse(), false}} {
		for _, change := range []struct {
			name   string
			values map[string]string
		}{{".set", side.ops.GetSet()}, {".add", side.ops.GetAdd()}} {
			for _, name := range slices.Sorted(maps.Keys(change.values)) {
				if isReserved(name) && !(side.request && isAuthority(name)) {
					w.addWarning(path+side.name+change.name+"["+name+"]", "Envoy does not let this header be changed")
				}
			}
		}
		for i, name := range side.ops.GetRemove() {
			if isReserved(name) {
				w.addWarning(
					fmt.Sprintf("%s%s.remove[%d]", path, side.name, i),
					fmt.Sprintf("Envoy does not let the header %q be removed", name),
				)
			}
		}
	}
}
