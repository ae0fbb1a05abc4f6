package explain

import (
	"fmt"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	uritemplatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// rbacCall is the call as RBAC policies see it. The request of a raw connection is empty.
type rbacCall struct {
	*walk
	request *Request
}

// evalPermission reports whether a Permission matches the requested operation, and why. Destination
// ports are compared exactly, the end of a range is exclusive. An unsupported condition is an
// error.
func (a rbacCall) evalPermission(p *rbacv3.Permission) (finding, error) {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return alwaysHolds(), nil
	case *rbacv3.Permission_AndRules:
		return allOf(r.AndRules.GetRules(), a.evalPermission)
	case *rbacv3.Permission_OrRules:
		return anyOf(r.OrRules.GetRules(), a.evalPermission)
	case *rbacv3.Permission_NotRule:
		f, err := a.evalPermission(r.NotRule)
		return f.not(), err
	case *rbacv3.Permission_Header:
		return a.evalHeader(r.Header)
	case *rbacv3.Permission_UrlPath:
		return a.evalPath(r.UrlPath)
	case *rbacv3.Permission_DestinationIp:
		return addressFinding("the destination", a.call.To.Addr(), r.DestinationIp), nil
	case *rbacv3.Permission_DestinationPort:
		return portFinding(a.call.To.Port(), r.DestinationPort, r.DestinationPort), nil
	case *rbacv3.Permission_DestinationPortRange: // the end of the range is exclusive
		return portFinding(
			a.call.To.Port(),
			uint32(r.DestinationPortRange.GetStart()),
			uint32(r.DestinationPortRange.GetEnd())-1,
		), nil
	case *rbacv3.Permission_RequestedServerName:
		return textFinding("the server name", a.serverName(), r.RequestedServerName)
	case *rbacv3.Permission_Metadata:
		return a.evalMetadata(r.Metadata) //nolint:staticcheck // EnvoyFilters may still use it
	case *rbacv3.Permission_SourcedMetadata:
		return a.evalSourcedMetadata(r.SourcedMetadata)
	case *rbacv3.Permission_UriTemplate:
		t, ok := unpackAny(r.UriTemplate.GetTypedConfig(), new(uritemplatev3.UriTemplateMatchConfig))
		if !ok {
			return finding{}, fmt.Errorf("the path is compared by %s, which is not supported", r.UriTemplate.GetName())
		}
		return a.evalTemplate(t.GetPathTemplate())
	default:
		return finding{}, fmt.Errorf("the permission %T is not supported", r)
	}
}

// evalHeader evaluates a HeaderMatcher. A mismatch of the host has distance mismatchHost, any other
// near. The error reports an unsupported matcher.
func (a rbacCall) evalHeader(h *routev3.HeaderMatcher) (finding, error) {
	ok, err := headerMatches(h, a.request)
	if ok {
		return finding{ok: true, why: headerText(h)}, err
	}
	value, there := a.request.headerValue(h.GetName())
	if !there || value == "" {
		value = "not there"
	}
	miss := near
	if h.GetName() == ":authority" {
		miss = mismatchHost
	}
	wanted := strings.TrimPrefix(headerText(h), h.GetName()+" ")
	return finding{why: h.GetName() + " is " + value + " (wanted: " + wanted + ")", miss: miss}, err
}

// evalPath compares the path without the query. A mismatch has distance mismatchMethodOrPath.
func (a rbacCall) evalPath(m *matcherv3.PathMatcher) (finding, error) {
	path, _ := a.request.splitPath()
	f, err := textFinding("the path", path, m.GetPath())
	f.miss *= mismatchMethodOrPath
	return f, err
}

// serverName returns the server name of the TLS handshake, or "" if the proxy has not parsed a
// handshake. The connection must be TLS, terminated or not.
func (w *walk) serverName() string {
	if w.transport == tlsTransport || w.secured {
		return w.call.ServerName
	}
	return ""
}
