package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// boundRoutes are the encoded routes of one VirtualService at a gateway, with the final catch-all
// route apart in rest. If several VirtualServices share a host, the catch-all routes come last.
//
// The routes of a VirtualService with an extension are in ranked instead. The routes of all
// such VirtualServices are merged by their order. They come before the catch-all routes of others.
type boundRoutes struct {
	some, rest *routes
	ranked     []rankedRoute
}

// boundRoutesOf translates the HTTP routes of a VirtualService for a gateway. The result has no
// routes (isEmpty) if none is for the proxies. A VirtualService with an extension yields ranked
// routes only. Otherwise a final route that matches all requests is kept apart from the others.
func boundRoutesOf(in routesInput) *boundRoutes {
	if in.uses.vs.Config.Extension != nil {
		return &boundRoutes{new(routes), new(routes), newTranslation(in).rankedRoutes()}
	}
	list := newTranslation(in).buildRoutes()
	n := len(list)
	if n > 0 && takesAll(list[n-1].GetMatch()) {
		n-- // Routes after it have been removed.
	}
	return &boundRoutes{encodeRoutes(list[:n]), encodeRoutes(list[n:]), nil}
}

// isEmpty reports whether r has no routes of any kind.
func (r *boundRoutes) isEmpty() bool {
	return len(r.some.encoded)+len(r.rest.encoded)+len(r.ranked) == 0
}

// mergeBound returns the ranked routes of several VirtualServices as one list, in the order of
// matching (mergeRanked). Their other routes are left out.
func mergeBound(list memo.List[*boundRoutes]) *routes {
	var ranked [][]rankedRoute
	for r := range list.All {
		ranked = append(ranked, r.ranked)
	}
	return mergeRanked(ranked...)
}

// memoList returns list as a memo.List, which is comparable.
func memoList(list []*boundRoutes) memo.List[*boundRoutes] { return memo.ListOf(list) }

// gatewayHostInput is everything that an encoded virtual host of a gateway depends on.
type gatewayHostInput struct {
	host mesh.Hostname
	// port is the port that clients of the gateway use.
	port   uint32
	routes memo.List[*boundRoutes]
	// redirect redirects plaintext requests to HTTPS (Server.tls.httpsRedirect).
	redirect bool
	attempts bool
	// misdirected answers all requests with 421, because another server of the port has the host.
	misdirected bool
	// quic is the port of HTTP/3 that responses advertise; 0 for none.
	quic uint32
}

// More field numbers of VirtualHost.
const (
	hostRequireTLSField  protowire.Number = 4
	hostAddResponseField protowire.Number = 10
)

// alternativeAge is how long, in seconds, clients may cache the advertisement of HTTP/3 (RFC 7838,
// section 3.1).
const alternativeAge = 86400

// encodeGatewayHost encodes a virtual host of a gateway with its merged routes: of each
// VirtualService but for its catch-all, then ranked ones, then the catch-alls. If in.misdirected is
// set, its only route answers with 421. It may require TLS (in.redirect), advertise HTTP/3
// (in.quic) and count attempts.
func encodeGatewayHost(in gatewayHostInput) *virtualHost {
	all := new(routes)
	for r := range in.routes.All {
		all.addRoutes(r.some)
	}
	all.addRoutes(mergeBound(in.routes))
	for r := range in.routes.All {
		all.addRoutes(r.rest)
	}
	if in.misdirected {
		all = encodeRoutes([]*routev3.Route{misdirectedRoute()})
	}
	var h []byte
	h = appendString(h, hostNameField, operation(string(in.host), in.port))
	h = appendString(h, hostDomainsField, strings.ToLower(bracketed(string(in.host))))
	h = append(h, all.encoded...)
	if in.redirect {
		h = protowire.AppendVarint(
			protowire.AppendTag(h, hostRequireTLSField, protowire.VarintType),
			uint64(routev3.VirtualHost_ALL),
		)
	}
	if in.quic != 0 {
		h = appendMessage(h, hostAddResponseField, altSvcHeader(in.quic))
	}
	if in.attempts {
		h = protowire.AppendVarint(protowire.AppendTag(h, hostAttemptsField, protowire.VarintType), 1)
	}
	return &virtualHost{
		encoded:  protowire.AppendBytes(protowire.AppendTag(nil, configHostsField, protowire.BytesType), h),
		clusters: all.clusters,
	}
}

// addRoutes appends the routes of o to r, and adds the clusters of o, sorted and without
// duplicates. It ignores o.pinned.
func (r *routes) addRoutes(o *routes) {
	r.encoded = append(r.encoded, o.encoded...)
	r.clusters = append(r.clusters, o.clusters...)
	slices.Sort(r.clusters)
	r.clusters = slices.Compact(r.clusters)
}

// altSvcHeader returns the encoded HeaderValueOption that advertises HTTP/3 at port, for
// alternativeAge seconds. It adds to a header of the application or of a VirtualService.
func altSvcHeader(port uint32) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{
			Key:   "alt-svc",
			Value: `h3=":` + strconv.FormatUint(uint64(port), 10) + `"; ma=` + strconv.Itoa(alternativeAge),
		},
		AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
	})
	if err != nil {
		panic(fmt.Sprintf("route: encode alt-svc: %v", err)) // generated
	}
	return body
}

// misdirectedStatus is "421 Misdirected Request" (RFC 9110, section 15.5.20).
const misdirectedStatus = 421

// misdirectedRoute returns the route that answers all requests with 421: their connection asked for
// the server name of another host.
func misdirectedRoute() *routev3.Route {
	return &routev3.Route{
		Name:  "misdirected",
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: misdirectedStatus,
		}},
	}
}
