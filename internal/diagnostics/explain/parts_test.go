package explain

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"net/netip"
)

// parsed reads a message from prototext.
func parsed[M proto.Message](t *testing.T, m M, text string) M {
	t.Helper()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFilterChainMatchDoesNotBacktrack: each criterion narrows the candidates without backtracking,
// so a chain that matches all criteria may not be selected.
func TestFilterChainMatchDoesNotBacktrack(t *testing.T) {
	l := parsed(t, new(listenerv3.Listener), `
		name: "l"
		default_filter_chain { name: "default" }
		filter_chains { name: "port" filter_chain_match { destination_port { value: 80 } server_names: "a.example.com" } }
		filter_chains { name: "any" }
		filter_chains { name: "range" filter_chain_match { prefix_ranges { address_prefix: "10.0.0.0" prefix_len { value: 8 } } transport_protocol: "tls" } }
		filter_chains { name: "narrow" filter_chain_match { prefix_ranges { address_prefix: "10.1.0.0" prefix_len { value: 16 } } server_names: "*.example.com" } }
		filter_chains { name: "narrower" filter_chain_match { prefix_ranges { address_prefix: "10.1.0.0" prefix_len { value: 16 } } server_names: "*.b.example.com" } }
		filter_chains { name: "http" filter_chain_match { destination_port { value: 81 } application_protocols: "h2c" application_protocols: "http/1.1" } }`)
	for _, c := range []struct {
		to, transport, sni string
		protocols          []string
		want               string
	}{
		{"192.0.2.1:82", rawBuffer, "", nil, "any"},
		{"192.0.2.1:80", tlsTransport, "a.example.com", nil, "port"},
		{"192.0.2.1:80", tlsTransport, "b.example.com", nil, "default"}, // the port has a chain, though not for this name
		{"10.2.0.1:82", tlsTransport, "", nil, "range"},
		{"10.2.0.1:82", rawBuffer, "", nil, "default"},
		{"10.1.0.1:82", tlsTransport, "x.example.com", nil, "narrow"},
		{"10.1.0.1:82", tlsTransport, "x.b.example.com", nil, "narrower"},
		{"10.1.0.1:82", tlsTransport, "example.com", nil, "default"},
		{"192.0.2.1:81", rawBuffer, "", []string{"http/1.1"}, "http"},
		{"192.0.2.1:81", rawBuffer, "", []string{"http/1.0"}, "default"},
	} {
		w := &walk{Resources: &Resources{}, path: new(Path), transport: c.transport, protocols: c.protocols}
		w.call = Call{To: netip.MustParseAddrPort(c.to), ServerName: c.sni}
		chain, end := w.filterChain(decoded[*listenerv3.Listener]{message: l})
		if end != nil || chain.GetName() != c.want {
			t.Errorf("%+v: got %s, %v", c, chain.GetName(), end)
		}
	}
}

// TestLoads: a lower priority gets load as the health of higher ones decreases, and localities get
// load by their weights where these apply.
func TestLoads(t *testing.T) {
	const sick = `health_status: UNHEALTHY`
	at := func(address, more string) string {
		return `lb_endpoints { endpoint { address { socket_address { address: "` + address + `" port_value: 1 } } } ` + more + ` }`
	}
	for _, c := range []struct {
		name, assignment, cluster string
		want                      map[string]float64
	}{
		{"weights", `endpoints { ` + at("1.1.1.1", "load_balancing_weight { value: 3 }") + at("1.1.1.2", "") + ` }`, "", map[string]float64{"1.1.1.1:1": 0.75, "1.1.1.2:1": 0.25}},
		{"the first priority", `endpoints { ` + at("1.1.1.1", "") + ` } endpoints { priority: 1 ` + at("1.1.1.2", "") + ` }`, "", map[string]float64{"1.1.1.1:1": 1}},
		{"half of it is sick", `endpoints { ` + at("1.1.1.1", "") + at("1.1.1.3", sick) + ` } endpoints { priority: 1 ` + at("1.1.1.2", "") + ` }`, "", map[string]float64{"1.1.1.1:1": 0.7, "1.1.1.2:1": 0.3}},
		{"all are sick", `endpoints { ` + at("1.1.1.1", sick) + at("1.1.1.2", sick) + ` }`, "", map[string]float64{"1.1.1.1:1": 0.5, "1.1.1.2:1": 0.5}},
		{"all are sick, without panic", `endpoints { ` + at("1.1.1.1", sick) + ` }`, `common_lb_config { healthy_panic_threshold {} }`, map[string]float64{}},
		{"localities", `endpoints { load_balancing_weight { value: 1 } ` + at("1.1.1.1", "") + ` } endpoints { load_balancing_weight { value: 3 } ` + at("1.1.1.2", "") + at("1.1.1.3", "") + ` }`,
			`common_lb_config { locality_weighted_lb_config {} }`, map[string]float64{"1.1.1.1:1": 0.25, "1.1.1.2:1": 0.375, "1.1.1.3:1": 0.375}},
	} {
		got := map[string]float64{}
		for _, e := range endpointShares(parsed(t, new(endpointv3.ClusterLoadAssignment), c.assignment), parsed(t, new(clusterv3.Cluster), c.cluster)) {
			if e.Share > 0 {
				got[e.Address] = e.Share
			}
		}
		for address, share := range c.want {
			if d := got[address] - share; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s: %s gets %v, want %v", c.name, address, got[address], share)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestNormalPath(t *testing.T) {
	base := &hcmv3.HttpConnectionManager{NormalizePath: wrapperspb.Bool(true)}
	merge := &hcmv3.HttpConnectionManager{NormalizePath: wrapperspb.Bool(true), MergeSlashes: true}
	decode := &hcmv3.HttpConnectionManager{
		NormalizePath:                wrapperspb.Bool(true),
		MergeSlashes:                 true,
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD,
	}
	none := new(hcmv3.HttpConnectionManager)
	for _, c := range []struct {
		manager    *hcmv3.HttpConnectionManager
		path, want string
	}{
		{base, "/a/../b?c=/../d", "/b?c=/../d"}, {base, "/../../a", "/a"}, {base, "/a/.", "/a/"}, {base, "/a/b/..", "/a/"},
		{base, "/%61%2e%2E/", "/a../"}, {base, `/a\..\b`, "/b"}, {base, "//a", "//a"}, {base, "/a%2Fb", "/a%2Fb"}, {base, "*", "*"},
		{merge, "/a//b///c", "/a/b/c"}, {decode, "/a%2F%2fb%5Cc", "/a/b/c"}, {none, "/a/../b", "/a/../b"},
	} {
		if got, rejected := normalPath(c.manager, c.path); got != c.want || rejected {
			t.Errorf("%s: got %s, %v; want %s", c.path, got, rejected, c.want)
		}
	}
	reject := &hcmv3.HttpConnectionManager{PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_REJECT_REQUEST}
	if _, rejected := normalPath(reject, "/a%2fb"); !rejected {
		t.Error("an escaped slash is not refused")
	}
}

func TestSubstituted(t *testing.T) {
	for _, c := range []struct{ expression, substitution, text, want string }{
		{"^/users/([^/]+)/(.*)$", `/\2/of/\1`, "/users/ann/x", "/x/of/ann"},
		{"o", "$1", "foo", "f$1$1"},
		{"(o)", `\\\1\0`, "fo", `f\oo`},
		{"x", "y", "foo", "foo"},
	} {
		s := &matcherv3.RegexMatchAndSubstitute{
			Pattern:      &matcherv3.RegexMatcher{Regex: c.expression},
			Substitution: c.substitution,
		}
		if got := substituteRegex(s, c.text); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// TestUnknownMatchersAreNotGuessed: a matcher that cannot be evaluated ends the path with a step
// that names it.
func TestUnknownMatchersAreNotGuessed(t *testing.T) {
	for _, match := range []string{
		`path_match_policy { name: "x" }`,
		`safe_regex { regex: "(" }`,
		`prefix: "/" dynamic_metadata { filter: "f" }`,
		`prefix: "/" filter_state { key: "k" }`,
		`prefix: "/" tls_context {}`,
		`prefix: "/" headers { name: "x" string_match {} }`,
		`prefix: "/" runtime_fraction { default_value { numerator: 50 } }`,
	} {
		c := parsed(
			t,
			new(routev3.RouteConfiguration),
			`virtual_hosts { name: "v" domains: "*" routes { match { `+match+` } } }`,
		)
		x := &exchange{
			walk:    &walk{Resources: &Resources{}, path: new(Path)},
			request: &Request{Method: "GET", Authority: "a", Path: "/", Header: []Header{{"x", "1"}}},
		}
		end := x.lookupRoute(decoded[*routev3.RouteConfiguration]{message: c})
		if len(end) != 1 || end[0].Kind != Unknown || x.path.Supported() {
			t.Errorf("%s: got %v, %v", match, end, x.path)
		}
	}
}

func TestRouteMatches(t *testing.T) {
	r := &Request{
		Method:    "GET",
		Authority: "a",
		Path:      "/Aa/b?x=1&y",
		Header:    []Header{{"n", "42"}, {"m", "one"}, {"m", "two"}, {"content-type", "application/grpc"}},
	}
	for match, want := range map[string]bool{
		`prefix: "/Aa"`: true, `prefix: "/aa"`: false, `prefix: "/aa" case_sensitive {}`: true,
		`path: "/Aa/b"`: true, `path: "/Aa"`: false, `path_separated_prefix: "/Aa"`: true, `path_separated_prefix: "/A"`: false,
		`safe_regex { regex: "/A.*" }`: true, `safe_regex { regex: "/A" }`: false, `connect_matcher {}`: false,
		`prefix: "/" grpc {}`: true,
		`prefix: "/" headers { name: "n" range_match { start: 1 end: 43 } }`:                              true,
		`prefix: "/" headers { name: "n" range_match { start: 1 end: 42 } }`:                              false,
		`prefix: "/" headers { name: "m" string_match { exact: "two" } }`:                                 true,
		`prefix: "/" headers { name: "m" string_match { exact: "two" } invert_match: true }`:              false,
		`prefix: "/" headers { name: "m" string_match { suffix: "E" ignore_case: true } }`:                true,
		`prefix: "/" headers { name: "m" string_match { contains: "w" } }`:                                true,
		`prefix: "/" headers { name: "z" string_match { exact: "" } }`:                                    false,
		`prefix: "/" headers { name: "z" string_match { exact: "" } treat_missing_header_as_empty: true}`: true,
		`prefix: "/" headers { name: "z" string_match { exact: "1" } invert_match: true }`:                false,
		`prefix: "/" headers { name: "z" present_match: false }`:                                          true,
		`prefix: "/" headers { name: "n" }`:                                                               true,
		`prefix: "/" query_parameters { name: "x" string_match { exact: "1" } }`:                          true,
		`prefix: "/" query_parameters { name: "y" present_match: true }`:                                  true,
		`prefix: "/" query_parameters { name: "z" }`:                                                      false,
	} {
		got, _, _, err := matchRoute(parsed(t, new(routev3.RouteMatch), match), r)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", match, got, err)
		}
	}
}

// TestVirtualHosts: an exact domain takes precedence over the longest suffix, that over the longest
// prefix, and "*" is last.
func TestVirtualHosts(t *testing.T) {
	const config = `
		virtual_hosts { name: "exact" domains: "a.example.com" domains: "[::1]" }
		virtual_hosts { name: "suffix" domains: "*.example.com" domains: "*-b.example.com" }
		virtual_hosts { name: "longer" domains: "*.c.example.com" }
		virtual_hosts { name: "prefix" domains: "a.*" }
		virtual_hosts { name: "port" domains: "a.example.com:81" }`
	for _, c := range []struct {
		authority, want string
		ignorePort      bool
	}{
		{"A.example.com:80", "exact", true},
		{"a.example.com:81", "exact", true},
		{"a.example.com:81", "port", false},
		{"a.example.com:82", "prefix", false},
		{"[::1]:81", "exact", true},
		{"[::1]", "exact", true},
		{"b.example.com", "suffix", true},
		{"b.c.example.com", "longer", true},
		{"a.example.org", "prefix", true},
		{"x.y", "", true},
	} {
		x := &exchange{
			walk:    &walk{Resources: &Resources{}, path: new(Path)},
			request: &Request{Authority: c.authority, Path: "/"},
		}
		r := parsed(t, new(routev3.RouteConfiguration), config)
		r.IgnorePortInHostMatching = c.ignorePort
		if end := x.lookupRoute(
			decoded[*routev3.RouteConfiguration]{message: r},
		); end != nil ||
			x.routed.host.GetName() != c.want {
			t.Errorf("%+v: got %q, %v", c, x.routed.host.GetName(), end)
		}
	}
}

// TestWeightsOfClusters: shares are proportional to weights. Without a positive weight, which Envoy
// rejects, the path is unknown.
func TestWeightsOfClusters(t *testing.T) {
	for _, c := range []struct {
		weights string
		want    []float64 // nil: unsupported
	}{
		{`clusters { name: "a" weight { value: 1 } } clusters { name: "b" weight { value: 3 } }`, []float64{0.25, 0.75}},
		{`clusters { name: "a" weight { value: 0 } } clusters { name: "b" weight { value: 3 } }`, []float64{0, 1}},
		{`clusters { name: "a" weight { value: 0 } } clusters { name: "b" }`, nil},
	} {
		a := parsed(t, new(routev3.RouteAction), `weighted_clusters { `+c.weights+` }`)
		list, _, err := new(exchange).clusterChoices(a)
		var shares []float64
		for _, one := range list {
			shares = append(shares, one.share)
		}
		if !slices.Equal(shares, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: %v, %v; want %v", c.weights, shares, err, c.want)
		}
	}
}

// TestWeightsOfTCP: the same for the connections of a TCP proxy.
func TestWeightsOfTCP(t *testing.T) {
	for _, c := range []struct {
		weights string
		want    []float64 // nil: unsupported
	}{
		{`clusters { name: "a" weight: 1 } clusters { name: "b" weight: 3 }`, []float64{0.25, 0.75}},
		{`clusters { name: "a" } clusters { name: "b" }`, nil},
		{``, nil},
	} {
		w := &walk{Resources: &Resources{}, path: new(Path)}
		list := w.tcpProxy(parsed(t, new(tcpv3.TcpProxy), `weighted_clusters { `+c.weights+` }`))
		if c.want == nil {
			if len(list) != 1 || list[0].Kind != Unknown || w.path.Supported() {
				t.Errorf("%s: %+v, want an unknown ending", c.weights, list)
			}
			continue
		}
		var shares []float64
		for _, one := range list {
			shares = append(shares, one.Share)
		}
		if !slices.Equal(shares, c.want) {
			t.Errorf("%s: %v; want %v", c.weights, shares, c.want)
		}
	}
}

func TestParseRequest(t *testing.T) {
	for _, bad := range []string{"", "GET", "GET a.example.com/"} {
		if r, err := ParseRequest(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, r)
		}
	}
	if r, err := ParseRequest("GET http://a/", "header"); err == nil {
		t.Errorf("a header without a value was read as %+v", r)
	}
}

func TestHeaderChanges(t *testing.T) {
	w := parsed(t, new(routev3.Route), `
		request_headers_to_remove: "gone"
		request_headers_to_add { header { key: "a" value: "1" } append_action: APPEND_IF_EXISTS_OR_ADD }
		request_headers_to_add { header { key: "a" value: "0" } append_action: OVERWRITE_IF_EXISTS_OR_ADD }
		request_headers_to_add { header { key: "d" value: "new" } append_action: ADD_IF_ABSENT }
		request_headers_to_add { header { key: "r" value: "new" } append_action: OVERWRITE_IF_EXISTS }
		request_headers_to_add { header { key: "p" value: "%REQ(:path)% 100%% %REQ(none?d)% %UNKNOWN%" } }
		request_headers_to_add { header { key: "empty" } }`)
	r := &Request{Path: "/x", Header: []Header{{"gone", "1"}, {"a", "old"}, {"d", "old"}}}
	r.applyChanges(headerChanges(w.GetRequestHeadersToAdd(), w.GetRequestHeadersToRemove()))
	want := []Header{{"d", "old"}, {"a", "0"}, {"a", "1"}, {"p", "/x 100% old %UNKNOWN%"}}
	if len(r.Header) != len(want) {
		t.Fatalf("got %v, want %v", r.Header, want)
	}
	for i := range want {
		if r.Header[i] != want[i] {
			t.Errorf("got %v, want %v", r.Header, want)
		}
	}
}

// TestMetadataWithoutAlternatives: a list of alternatives that is empty, which Envoy rejects and a
// config dump may still have, matches nothing.
func TestMetadataWithoutAlternatives(t *testing.T) {
	m := parsed(t, new(matcherv3.MetadataMatcher), `filter: "f" path { key: "k" } value { or_match {} }`)
	f, err := rbacCall{walk: new(walk)}.evalMetadata(m)
	if want := "k is not there (wanted: is as asked for)"; f.ok || f.why != want || err != nil {
		t.Errorf("got %+v, %v; want %q", f, err, want)
	}
}
