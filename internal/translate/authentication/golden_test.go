package authentication

import (
	"bytes"
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml,
// features.yaml), the known keys in keys.yaml and the proxy in proxy.yaml. Outputs are the filters
// in "http" and the reported Problems in "problems".
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		a := authenticationOf(t, c)
		var http, problems bytes.Buffer
		for _, f := range a.HTTP {
			text, err := protojson.Marshal(f)
			if err == nil {
				text, err = yaml.JSONToYAML(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			http.WriteString("---\n")
			http.Write(text)
		}
		for _, p := range a.Problems {
			fmt.Fprintf(&problems, "%s: %s\n", p.Severity, p)
		}
		c.Compare(t, "http", http.Bytes())
		if c.Has("clusters") {
			c.Compare(t, "clusters", fmt.Appendln(nil, a.Clusters))
		}
		c.Compare(t, "problems", problems.Bytes())
	})
}

func authenticationOf(t testing.TB, c *golden.Case) *Authentication {
	t.Helper()
	m := fixture.OfCase(t, c)
	m.Send(keySets(t, c.Input("keys.yaml"))...)
	return NewTable().For(m.View(fixture.Proxy(t, c.Input("proxy.yaml"))))
}

func keySets(t testing.TB, text []byte) mesh.Batch {
	t.Helper()
	var list []mesh.KeySet
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		t.Fatal(err)
	}
	var batch mesh.Batch
	for _, k := range list {
		batch = append(batch, mesh.Event{KeySet: &k})
	}
	return batch
}

// TestEnvoyAcceptsAllCases loads the filters of every case into Envoy, all at once.
func TestEnvoyAcceptsAllCases(t *testing.T) {
	envoy.RequireBinary(t)
	var all envoy.Config
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		all.Listeners = append(all.Listeners, listenerWith(len(all.Listeners), authenticationOf(t, c)))
	})
	envoy.Validate(t, all)
}

func listenerWith(n int, a *Authentication) *listenerv3.Listener {
	router := &hcmv3.HttpFilter{
		Name:       "router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(new(routerv3.Router))},
	}
	http := &hcmv3.HttpConnectionManager{
		StatPrefix: "x", HttpFilters: append(a.HTTP[:len(a.HTTP):len(a.HTTP)], router),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: new(routev3.RouteConfiguration)},
	}
	return &listenerv3.Listener{
		Name: fmt.Sprint(n),
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: fmt.Sprintf("127.1.%d.%d", n/256, n%256), PortSpecifier: &corev3.SocketAddress_PortValue{
				PortValue: 80,
			},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{
				{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(http)}},
			},
		}},
	}
}
