package debug

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// parseCaller parses the query parameters that describe the caller, and sets them in call. It
// returns an error if an address, a claim or the authorizer's answer is malformed.
func (p *Pages) parseCaller(call *explain.Call, q question) error {
	if p.Now != nil {
		call.At = p.Now()
	}
	call.Authorizers = explain.Answer(q.Get("authorizer"))
	switch call.Authorizers {
	case "", explain.Allows, explain.Denies, explain.Fails:
	default:
		return fmt.Errorf(
			"reading authorizer %q: want %s, %s or %s",
			call.Authorizers,
			explain.Allows,
			explain.Denies,
			explain.Fails,
		)
	}
	if text := q.Get("from"); text != "" {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("reading the caller's address: %w", err)
		}
		call.From = netip.AddrPortFrom(a.Unmap(), 0)
	}
	for _, c := range q.Values["claim"] {
		name, value, ok := strings.Cut(c, "=")
		if !ok {
			return fmt.Errorf("reading claim %q: want NAME=VALUE or NAME=VALUE,VALUE", c)
		}
		if call.Claims == nil {
			call.Claims = map[string]any{}
		}
		setClaim(call.Claims, strings.Split(name, "."), value)
	}
	if text := q.Get("principal"); text != "" {
		p.setIdentity(call, text)
	}
	return nil
}

// setClaim sets the claim at path to value. For the path of "realm.roles" it sets the claim roles
// within the claim realm. A value with commas becomes a list.
func setClaim(claims map[string]any, path []string, value string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := claims[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			claims[name] = inner
		}
		claims = inner
	}
	name := path[len(path)-1]
	values := strings.Split(value, ",")
	if len(values) == 1 {
		claims[name] = value
		return
	}
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	claims[name] = list
}

// setIdentity makes the call a mutual TLS call by the proxy of a workload with the given identity.
// The principal is "cluster.local/ns/a/sa/b", with or without its scheme, or "a/b" in the mesh's
// own trust domain. An outbound call becomes inbound.
func (p *Pages) setIdentity(call *explain.Call, principal string) {
	principal = strings.TrimPrefix(principal, "spiffe://")
	if namespace, account, ok := strings.Cut(principal, "/"); ok && !strings.Contains(account, "/") {
		principal = p.Snapshot().Settings.TrustDomains()[0] + "/ns/" + namespace + "/sa/" + account
	}
	call.Identity = "spiffe://" + principal
	if call.Direction == explain.Outbound {
		call.Direction = explain.Inbound
	}
	switch {
	case call.Request == nil:
		call.ALPN = []string{"istio-peer-exchange", "istio"}
	case call.Carries == explain.HTTP2 || strings.HasPrefix(contentType(call.Request), "application/grpc"):
		call.ALPN = []string{"istio-h2", "istio", "h2"}
	default:
		call.ALPN = []string{"istio-http/1.1", "istio", "http/1.1"}
	}
	call.Carries = explain.TLS
}

// contentType returns the values of the content-type header, joined by commas.
func contentType(r *explain.Request) string { return strings.Join(r.Values("content-type"), ",") }
