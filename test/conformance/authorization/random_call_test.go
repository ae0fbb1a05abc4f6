package authorization

import (
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/test/conformance/authorization/reference"
)

// randomConnection returns a call with only the properties of its connection: caller, destination,
// addresses and transport.
func randomConnection(r *rand.Rand, s *scene, to *workload, domains []string, ports ...string) testCase {
	port := pick(r, ports)
	c := testCase{scene: s, To: to.Name + ":" + port, From: netip.MustParseAddr(pick(r, []string{"127.0.0.1", "127.10.0.1", "127.10.7.1", "127.11.0.2"}))}
	c.HTTP2 = port[0] == '8' && r.IntN(4) == 0
	if r.IntN(4) > 0 {
		c.As = pick(r, domains) + pick(r, []string{"/ns/a/sa/x", "/ns/a/sa/x", "/ns/a/sa/y", "/ns/b/sa/x", "/ns/shop/sa/x", "/ns/a-b/sa/x.y", "/ns/ab/sa/xzy", "/ns/axb/sa/q"})
		c.SNI = pick(r, []string{"", "outbound_.8001_._.w.shop", "a.example.com", "other"})
	}
	return c
}

// randomRequest completes a connection with a request.
func randomRequest(r *rand.Rand, c testCase) testCase {
	method := pick(r, []string{"GET", "GET", "POST", "PUT", "DELETE"})
	if c.HTTP2 && r.IntN(5) == 0 {
		method = strings.ToLower(method)
	}
	c.Call = method + " " + randomPath(r, c.HTTP2)
	c.Host = pick(r, []string{"a.example.com", "b.example.com", "A.Example.COM", "a.example.com:80", "a.example.com.", "internal", "internal:8001", "example.com", "axexample.com"})
	for name, values := range map[string][]string{"x-a": {"1", "2", "12", "1,2"}, "x-b": {"v.1", "vx1", "V.1"}} {
		for range max(0, r.IntN(5)-2) {
			c.Headers = append(c.Headers, name+": "+pick(r, values))
		}
	}
	if r.IntN(3) == 0 {
		c.Headers = append(c.Headers, "x-forwarded-for: "+pick(r, []string{"203.0.113.4", "203.0.113.9", "198.51.100.1, 203.0.113.4", "203.0.113.4, 198.51.100.1", "2001:db8::7"}))
	}
	if r.IntN(2) == 0 {
		c.Token = pick(r, []string{"jason", "anna", "shop", "single", "jason", "anna", "tenant", "late", "forged", "foreign", "garbage"})
	}
	return c
}

func randomPath(r *rand.Rand, http2 bool) string {
	segments := []string{"a", "a", "admin", "admin", "x", "b", "%61dmin", "Admin", "a.b", "..", ".", "%2e%2e", "b%2fc", "b%5Cc", "", "x;y", "a%2Fx", "%2E"}
	if !http2 {
		segments = append(segments, `b\x`, `x\..`)
	}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString("/" + pick(r, segments))
	}
	path := b.String()
	if http2 && strings.HasPrefix(path, "//") {
		path = "/a" + path // which the client would take for a host
	}
	return path + pick(r, []string{"", "", "", "?", "?q=/admin", "?/../x"})
}

// referenceCall converts a case to a call of package reference.
func (c *testCase) referenceCall(w *workload, port uint16, tokens *tokens) reference.Call {
	call := reference.Call{
		HTTP: c.Call != "", Principal: strings.TrimPrefix(c.identity(), "spiffe://"), SourceIP: c.from(), RemoteIP: c.from(),
		DestinationIP: w.Address, Port: port, SNI: c.SNI, Claims: tokens.claims[c.Token], Headers: map[string][]string{},
	}
	if !call.HTTP {
		return call
	}
	call.Method, call.Path, call.Host = c.request()
	for _, line := range c.Headers {
		name, value, _ := strings.Cut(line, ": ")
		call.Headers[name] = append(call.Headers[name], value)
		if name == "x-forwarded-for" { // the last address is the one that the next hop has seen
			call.RemoteIP = netip.MustParseAddr(strings.TrimSpace(value[strings.LastIndex(value, ",")+1:]))
		}
	}
	return call
}

// isRefusedToken reports whether a workload that checks tokens answers 401.
func isRefusedToken(name string) bool {
	switch name {
	case "late", "forged", "foreign", "garbage":
		return true
	default:
		return false
	}
}
