package explain

import (
	"fmt"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// mutateEarly applies the header mutations of the connection manager that precede the route lookup:
// each replaces its header. Only the format command of the destination address is evaluated; others
// remain in the value. An unsupported extension adds a step.
func (x *exchange) mutateEarly() {
	for _, extension := range x.manager.GetEarlyHeaderMutationExtensions() {
		m := new(earlyv3.HeaderMutation)
		if extension.GetTypedConfig().UnmarshalTo(m) != nil {
			x.addNote(StageUnsupported, extension.GetName(), "this early header mutation is not supported")
			continue
		}
		for _, change := range m.GetMutations() {
			value := change.GetAppend().GetHeader().GetValue()
			if value == "%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%" {
				value = x.call.To.Addr().Unmap().String()
			}
			x.request.setHeader(change.GetAppend().GetHeader().GetKey(), value)
		}
	}
}

// matchVirtualHost looks the route of the request up by the matcher of a virtual host, whose
// actions are lists of routes, and adds a step. It sets x.routed.host to the matched list. It
// returns endings only if the matcher is unsupported or the lookup in the list ends the call.
// Without a match no route is set, so that the response is 404.
func (x *exchange) matchVirtualHost(m *xdsmatcherv3.Matcher) []Ending {
	name, action, err := x.evalMatcher(m)
	if err != nil {
		return x.endUnsupported(x.routed.host.GetName(), "%v", err)
	}
	if action == nil {
		x.addNote(StageRoute, x.routed.host.GetName(), "its matcher does not match, so the response is 404")
		return nil
	}
	list := new(routev3.RouteList)
	if err := action.UnmarshalTo(list); err != nil {
		return x.endUnsupported(name, "the action %s of a matcher is not supported", action.GetTypeUrl())
	}
	// The route belongs to the virtual host that the action is named after.
	x.routed.host = &routev3.VirtualHost{Name: name, Routes: list.GetRoutes()}
	return x.firstRoute(x.routed.host)
}

// evalMatcher returns the name and the configuration of the action that a matcher selects for the
// request. If nothing matches, the action is that of on_no_match, or nil without one. It supports
// exact matches of a request header, and lists of regular expressions for one. A match of
// mesh.DestinationHeader adds a step. It returns an error for an unsupported input or an invalid
// expression.
func (x *exchange) evalMatcher(m *xdsmatcherv3.Matcher) (name string, action *anypb.Any, err error) {
	if tree := m.GetMatcherTree(); tree != nil {
		value, header, err := x.matcherInput(tree.GetInput().GetTypedConfig())
		if err != nil {
			return "", nil, err
		}
		if found := tree.GetExactMatchMap().GetMap()[value]; found != nil {
			if header == mesh.DestinationHeader {
				x.addNote(StageVirtualHost, found.GetAction().GetName(),
					"the request was sent to the address %s, which decides", value)
			}
			return x.evalOnMatch(found)
		}
		return x.evalOnMatch(m.GetOnNoMatch())
	}
	for _, f := range m.GetMatcherList().GetMatchers() {
		p := f.GetPredicate().GetSinglePredicate()
		value, _, err := x.matcherInput(p.GetInput().GetTypedConfig())
		if err != nil {
			return "", nil, err
		}
		matches, err := matchesWhole(p.GetValueMatch().GetSafeRegex().GetRegex(), value)
		if err != nil {
			return "", nil, err
		}
		if matches {
			return x.evalOnMatch(f.GetOnMatch())
		}
	}
	return x.evalOnMatch(m.GetOnNoMatch())
}

// evalOnMatch returns the name and the configuration of the action, or the result of the nested
// matcher if there is one. The action is nil if o is nil.
func (x *exchange) evalOnMatch(o *xdsmatcherv3.Matcher_OnMatch) (string, *anypb.Any, error) {
	if next := o.GetMatcher(); next != nil {
		return x.evalMatcher(next)
	}
	return o.GetAction().GetName(), o.GetAction().GetTypedConfig(), nil
}

// matcherInput returns the value of the request header that a matcher reads, and the header's name.
// The value is "" if the header is missing. It returns an error for an unsupported input.
func (x *exchange) matcherInput(input *anypb.Any) (value, header string, err error) {
	m := new(typematcherv3.HttpRequestHeaderMatchInput)
	if err := input.UnmarshalTo(m); err != nil {
		return "", "", fmt.Errorf("the input %s of a matcher is not supported", input.GetTypeUrl())
	}
	if m.GetHeaderName() == ":authority" {
		return x.request.Authority, m.GetHeaderName(), nil
	}
	value, _ = x.request.headerValue(m.GetHeaderName())
	return value, m.GetHeaderName(), nil
}
