package route

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// byAddress is the virtual host that replaces the virtual hosts of all services of a port to which
// routes of the Gateway API apply by address (ADR 37).
//
// Such routes apply to requests that are sent to the service's own addresses, and these addresses
// have a listener of their own. A request at the shared listener that names one of these services
// was sent to another address. If it is an address of another service, the request is routed as if
// it named that service. Otherwise its host decides.
//
// Envoy's route tables match only headers, so the listener copies the address into
// mesh.DestinationHeader. All replaced services share one virtual host, so the RouteConfiguration
// contains the table of addresses only once.
type byAddress struct {
	host *virtualHost
	// replaced are the indexes of the virtual hosts that it replaces.
	replaced map[int]bool
	// entries are the encoded entries of the table, which the next plan reuses.
	entries map[addressEntry][]byte
}

// addressEntry is everything that an entry of the table of addresses depends on.
type addressEntry struct {
	host    *virtualHost
	address string
}

// applyByAddress sets n.removesDestination if routes of the Gateway API apply by address to a
// service of n, perhaps for other proxies only. It sets n.byAddress if such routes replace some of
// the virtual hosts with addresses of their own, and not all. n.byAddress stays nil for a
// RouteConfiguration of one host or of all ports, and for direct proxies (view.IsDirect). It reuses
// parts of old, which may be nil.
func (n *plan) applyByAddress(p *planner, old *byAddress) {
	n.byAddress = nil
	n.removesDestination = slices.ContainsFunc(n.hosts, func(h *planned) bool { return h.namedByAddress })
	if !n.removesDestination || n.request.host != "" || n.request.port == 0 || view.IsDirect(p.v.Key) {
		return
	}
	replaced, others := map[int]bool{}, false
	owners := destination.OwnersOf(slices.Values(p.scope.listed), n.request.port)
	for i, h := range n.hosts {
		switch {
		case n.encoded[i] == nil || len(p.ownAddresses(h.service, owners)) == 0:
		case h.appliesByAddress:
			replaced[i] = true
		default:
			others = true
		}
	}
	if len(replaced) > 0 && others {
		n.byAddress = &byAddress{replaced: replaced, entries: map[addressEntry][]byte{}}
		n.byAddress.encode(n, p, owners, old)
	}
}

// ownAddresses returns the addresses of svc that no other service in owners has and that the
// proxies can reach. It returns nil if svc is nil, headless or a wildcard. Addresses of an IP
// family that the proxies do not have are left out.
func (p *planner) ownAddresses(svc *mesh.Service, owners destination.AddressOwners) []string {
	if svc == nil || svc.Headless || svc.Host.IsWildcard() {
		return nil
	}
	var list []string
	in := namesInput{ipv4: p.v.Key.IPv4, ipv6: p.v.Key.IPv6}
	for _, text := range svc.Addresses {
		a, err := netip.ParseAddr(text)
		if a = a.Unmap().WithZone(""); err == nil && in.reachable(a) && owners.Owns(svc, text) {
			list = append(list, a.String())
		}
	}
	return list
}

// encode sets b.host to the encoded virtual host of the replaced ones in n, and b.entries to its
// table of addresses. It reuses entries of old, which may be nil. Hosts without an encoding are
// skipped.
func (b *byAddress) encode(n *plan, p *planner, owners destination.AddressOwners, old *byAddress) {
	var h, addresses []byte
	if old != nil {
		addresses = make([]byte, 0, len(old.host.encoded)) // it includes the previous table
	}
	h = appendString(h, hostNameField, operation("by-address", n.request.port))
	var hosts []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher
	for i, one := range n.hosts {
		if n.encoded[i] == nil {
			continue
		}
		if b.replaced[i] {
			domains := without(one.names.domains, one.lost)
			for _, d := range domains {
				h = appendString(h, hostDomainsField, d)
			}
			hosts = append(hosts, matchHosts(domains, one.names.name, routeListOf(n.encoded[i])))
			continue
		}
		for _, a := range p.ownAddresses(one.service, owners) {
			addresses = append(addresses, b.entry(addressEntry{n.encoded[i], a}, one.names.name, old)...)
		}
	}
	if sendsAttempts(p.v) {
		h = protowire.AppendVarint(protowire.AppendTag(h, hostAttemptsField, protowire.VarintType), 1)
	}
	byHost := &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{Matchers: hosts}},
		OnNoMatch:   unknownRoutes(p.v),
	}
	h = appendMessage(h, hostMatcherField, matcherOf(mesh.DestinationHeader, addresses, byHost))
	b.host = &virtualHost{encoded: appendMessage(nil, configHostsField, h)}
}

// entry returns the encoded entry of the table of addresses for k, from old if it has it, and
// records it in b.entries. name is the name of the virtual host.
func (b *byAddress) entry(k addressEntry, name string, old *byAddress) []byte {
	var e []byte
	if old != nil {
		e = old.entries[k]
	}
	if e == nil {
		e = appendMapEntry(nil, k.address, name, routeListOf(k.host))
	}
	b.entries[k] = e
	return e
}

// matchHosts returns a match of requests whose host, with any port or none, is one of domains,
// ignoring case. They are routed by list, an encoded RouteList; name is the name of the action.
func matchHosts(domains []string, name string, list []byte) *xdsmatcherv3.Matcher_MatcherList_FieldMatcher {
	quoted := make([]string, len(domains))
	for i, d := range domains {
		quoted[i] = regexp.QuoteMeta(d)
	}
	anyOf := &xdsmatcherv3.RegexMatcher{
		EngineType: &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: new(xdsmatcherv3.RegexMatcher_GoogleRE2)},
		Regex:      "(?i)(?:" + strings.Join(quoted, "|") + ")(?::[0-9]+)?",
	}
	value := &xdsmatcherv3.StringMatcher{
		MatchPattern: &xdsmatcherv3.StringMatcher_SafeRegex{SafeRegex: anyOf},
	}
	return &xdsmatcherv3.Matcher_MatcherList_FieldMatcher{
		Predicate: &xdsmatcherv3.Matcher_MatcherList_Predicate{
			MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
				SinglePredicate: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
					Input:   headerInput(":authority"),
					Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: value},
				},
			},
		},
		OnMatch: routeListAction(name, list),
	}
}

// headerInput returns the matcher input that reads a request header.
func headerInput(name string) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{
		Name: "request-headers", TypedConfig: resource.Pack(&typematcherv3.HttpRequestHeaderMatchInput{HeaderName: name}),
	}
}

// unknownRoutes returns the action for requests to unknown hosts. They are forwarded by the View's
// outbound traffic policy, or refused with 502 if it does not allow them.
func unknownRoutes(v *view.View) *xdsmatcherv3.Matcher_OnMatch {
	r := blockedRoute()
	if cluster := destination.UnknownRequests(v); cluster != "" {
		r = passthroughRoute(cluster)
	}
	return routeListAction(r.Name, appendMessage(nil, routeListRoutesField, encoded(r)))
}

const routeListType = "type.googleapis.com/envoy.config.route.v3.RouteList"

// routeListAction returns the action with a name that looks the request up in list, an encoded
// RouteList.
func routeListAction(name string, list []byte) *xdsmatcherv3.Matcher_OnMatch {
	action := &xdscorev3.TypedExtensionConfig{
		Name: name, TypedConfig: &anypb.Any{TypeUrl: routeListType, Value: list},
	}
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: action}}
}

// The fields of messages that are encoded without the generated types, because a RouteConfiguration
// has as many as the port has services.
const (
	hostMatcherField     protowire.Number = 21 // VirtualHost
	routeListRoutesField protowire.Number = 1  // RouteList
	matcherTreeField     protowire.Number = 2  // Matcher
	treeExactField       protowire.Number = 2  // Matcher.MatcherTree
	matchMapField        protowire.Number = 1  // Matcher.MatcherTree.MatchMap
	mapKeyField          protowire.Number = 1
	mapValueField        protowire.Number = 2
	onMatchActionField   protowire.Number = 2 // Matcher.OnMatch
	extensionNameField   protowire.Number = 1 // TypedExtensionConfig
	extensionConfigField protowire.Number = 2
	anyTypeField         protowire.Number = 1
	anyValueField        protowire.Number = 2
)

// routeListOf returns the routes of a virtual host as an encoded RouteList. It is never nil for a
// host with routes; the order is kept.
func routeListOf(host *virtualHost) []byte {
	_, _, tag := protowire.ConsumeTag(host.encoded)
	body, _ := protowire.ConsumeBytes(host.encoded[tag:])
	var list []byte
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		size := protowire.ConsumeFieldValue(number, kind, body[n:])
		if number == hostRoutesField {
			list = protowire.AppendTag(list, routeListRoutesField, protowire.BytesType)
			list = append(list, body[n:n+size]...)
		}
		body = body[n+size:]
	}
	return list
}

// appendMapEntry appends an entry of a MatchMap for key, whose action looks the request up in list,
// an encoded RouteList. name is the name of the action.
func appendMapEntry(b []byte, key, name string, list []byte) []byte {
	config := appendMessage(appendString(nil, anyTypeField, routeListType), anyValueField, list)
	action := appendMessage(appendString(nil, extensionNameField, name), extensionConfigField, config)
	entry := appendMessage(appendString(nil, mapKeyField, key), mapValueField,
		appendMessage(nil, onMatchActionField, action))
	return appendMessage(b, matchMapField, entry)
}

// matcherOf returns an encoded Matcher that looks the value of header up in entries, an encoded
// MatchMap, and evaluates otherwise if it is not there.
func matcherOf(header string, entries []byte, otherwise *xdsmatcherv3.Matcher) []byte {
	tree := encoded(&xdsmatcherv3.Matcher_MatcherTree{Input: headerInput(header)})
	rest := encoded(&xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{
		OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: otherwise},
	}})
	return append(appendMessage(nil, matcherTreeField, appendMessage(tree, treeExactField, entries)), rest...)
}

// encoded returns the encoded message, and panics if that fails.
func encoded(m proto.Message) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("route: " + err.Error()) // Generated messages always encode.
	}
	return body
}
