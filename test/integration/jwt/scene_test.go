package jwt

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// scene is a workload with rules, and calls of it.
type scene struct {
	name string
	// rules are the spec of its RequestAuthentication, policies objects beside it.
	rules, policies string
	calls           []call
}

// call is a request and its expected result.
type call struct {
	name string
	// path is "/" if empty; headers are lines.
	path    string
	method  string
	headers []string
	// status is the expected status, 200 if 0.
	status int
	// seen are lines that the workload receives, hidden the names of headers that it must not
	// receive.
	seen, hidden []string
	// only are lines that the workload receives, without other values of these headers.
	only []string
	// body is part of the expected body.
	body string
}

// echo answers with the received request: the request line, then headers.
func echo(t testing.TB) int {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := []string{r.Method + " " + r.URL.RequestURI()}
		for name, values := range r.Header {
			for _, v := range values {
				lines = append(lines, strings.ToLower(name)+": "+v)
			}
		}
		_ = json.NewEncoder(w).Encode(lines) // the test checks what was received
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
}

// start runs one Envoy with a listener for each scene, and returns their addresses.
func start(t *testing.T, scenes []scene) []string {
	t.Helper()
	var listeners []*listenerv3.Listener
	var addresses []string
	for i, port := range serving.FreePorts(t, len(scenes)) {
		listeners = append(listeners, scenes[i].listener(t, i, port))
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	var list []string
	for _, l := range listeners {
		list = append(list, text(t, l))
	}
	bootstrap := fmt.Sprintf(`{"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}, "static_resources": {"clusters": [%s], "listeners": [%s]}}`,
		text(t, cluster(echo(t))), strings.Join(list, ","))
	p := envoy.Start(t, envoy.Options{Bootstrap: []byte(bootstrap), Ready: func() error {
		for _, a := range addresses {
			c, err := net.DialTimeout("tcp", a, time.Second)
			if err != nil {
				return err
			}
			_ = c.Close() // it listens
		}
		return nil
	}})
	_ = p
	return addresses
}

// listener returns the inbound listener of a scene's workload.
func (s scene) listener(t *testing.T, n, port int) *listenerv3.Listener {
	t.Helper()
	var objects []string
	if s.rules != "" {
		objects = append(objects, "kind: RequestAuthentication\nmetadata: {name: tokens, namespace: default}\nspec: "+s.rules)
	}
	if s.policies != "" {
		objects = append(objects, s.policies)
	}
	v := fixture.New(t, []byte(strings.Join(objects, "\n---\n")), nil).View(fixture.Proxy(t, []byte(`{type: sidecar, name: p, namespace: default, addresses: [10.0.0.1]}`)))
	checks := authentication.NewTable().For(v)
	filters := append(checks.HTTP[:len(checks.HTTP):len(checks.HTTP)], authorization.NewTable().For(v).HTTP...)
	filters = append(filters, &hcmv3.HttpFilter{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(t, new(routerv3.Router))}})
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "x", HttpFilters: filters, MaxRequestHeadersKb: nil,
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{
			Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "app"}}},
			}},
		}}}},
	}
	return &listenerv3.Listener{
		Name: fmt.Sprint(n), Address: address(port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(t, manager)},
		}}}},
	}
}

func cluster(port int) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: "app", ConnectTimeout: durationpb.New(time.Second),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: "app", Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(port)}}}},
		}}},
	}
}

func address(port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)}, //nolint:gosec // a port
	}}}
}

func text(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// make makes the call, and returns an error if the result is not as expected.
func (c call) make(t *testing.T, client *http.Client, at string) {
	t.Helper()
	status, body := c.send(t, client, at)
	want := c.status
	if want == 0 {
		want = http.StatusOK
	}
	if status != want || !strings.Contains(body, c.body) {
		t.Errorf("%d %q; want %d, %q", status, body, want, c.body)
	}
	var lines []string
	if len(c.seen)+len(c.hidden)+len(c.only) > 0 {
		if err := json.Unmarshal([]byte(body), &lines); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
	for _, l := range c.seen {
		found := false
		for _, line := range lines {
			found = found || line == l
		}
		if !found {
			t.Errorf("the workload does not see %q, but\n%s", l, strings.Join(lines, "\n"))
		}
	}
	for _, l := range c.only {
		name, _, _ := strings.Cut(l, ":")
		var all []string
		for _, line := range lines {
			if strings.HasPrefix(line, name+":") {
				all = append(all, line)
			}
		}
		if len(all) != 1 || all[0] != l {
			t.Errorf("the workload sees %q, want %q alone", all, l)
		}
	}
	for _, name := range c.hidden {
		for _, line := range lines {
			if strings.HasPrefix(line, name+":") {
				t.Errorf("the workload sees %q", line)
			}
		}
	}
}

func (c call) send(t *testing.T, client *http.Client, at string) (int, string) {
	t.Helper()
	method, path := c.method, c.path
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range c.headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
