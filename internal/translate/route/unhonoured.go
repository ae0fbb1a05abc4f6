package route

import (
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/token"
)

// Unhonoured gives a Problem for everything that a valid VirtualService says and that changes nothing, HTTP, TLS and TCP
// alike. Problems have a Field ("spec.http[0].fault.delay.exponentialDelay"), a Reason and the severity Warning; whose
// object it is the caller adds. That nothing is missing here, a test of the descriptor sees to.
func Unhonoured(vs *networking.VirtualService) []config.Problem {
	var w warnings
	for i, r := range vs.GetHttp() {
		w.httpRoute(fmt.Sprintf("http[%d]", i), vs, r)
	}
	for i, r := range vs.GetTcp() {
		for j, m := range r.GetMatch() {
			if m.GetSourceSubnet() != "" {
				w.add(fmt.Sprintf("tcp[%d].match[%d].sourceSubnet", i, j), "is not honoured, as it never was in Istio: connections are not told apart by the caller's address, use sourceLabels or sourceNamespace")
			}
		}
	}
	return w.list
}

// warnings collects Problems.
type warnings struct{ list []config.Problem }

func (w *warnings) add(field, reason string) {
	w.list = append(w.list, config.Problem{Field: "spec." + field, Reason: reason, Severity: config.Warning})
}

func (w *warnings) httpRoute(path string, vs *networking.VirtualService, r *networking.HTTPRoute) {
	for i, m := range r.GetMatch() {
		if at := fmt.Sprintf("%s.match[%d]", path, i); !atGateways(vs, m) {
			w.claims(at+".headers", m.GetHeaders(), "never")
			w.claims(at+".withoutHeaders", m.GetWithoutHeaders(), "always")
		}
	}
	w.headers(path+".headers", r.GetHeaders())
	for i, d := range r.GetRoute() {
		w.headers(fmt.Sprintf("%s.route[%d].headers", path, i), d.GetHeaders())
	}
	w.fault(path+".fault", r.GetFault())
}

// atGateways says whether a match is for some gateway, where tokens are checked before requests are routed.
func atGateways(vs *networking.VirtualService, m *networking.HTTPMatchRequest) bool {
	gateways := vs.GetGateways()
	if len(m.GetGateways()) > 0 {
		gateways = m.GetGateways()
	}
	return slices.ContainsFunc(gateways, func(name string) bool { return name != snapshot.MeshGateway }) || len(vs.GetHosts()) == 0 // a delegate's root says
}

func (w *warnings) claims(path string, headers map[string]*networking.StringMatch, holds string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if _, ok := token.RoutingClaim(name); ok {
			w.add(path+"["+name+"]", "no token is checked where sidecars route what their workloads send, only at gateways: the match "+holds+" holds")
		}
	}
}

func (w *warnings) fault(path string, f *networking.HTTPFaultInjection) {
	if f.GetDelay().GetExponentialDelay() != nil {
		w.add(path+".delay.exponentialDelay", "Envoy has fixed delays only: nothing is delayed")
	}
	if f.GetAbort().GetHttp2Error() != "" {
		w.add(path+".abort.http2Error", "Envoy aborts with an HTTP or gRPC status only: nothing is aborted")
	}
}

// headers looks for changes that Envoy refuses to make. The host of a request is rewritten by other means.
func (w *warnings) headers(path string, h *networking.Headers) {
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
					w.add(path+side.name+change.name+"["+name+"]", "Envoy does not let this header be changed")
				}
			}
		}
		for i, name := range side.ops.GetRemove() {
			if isReserved(name) {
				w.add(fmt.Sprintf("%s%s.remove[%d]", path, side.name, i), fmt.Sprintf("Envoy does not let the header %q be removed", name))
			}
		}
	}
}
