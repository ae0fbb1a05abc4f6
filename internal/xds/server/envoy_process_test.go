package server

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// admin is a client of an Envoy's admin port.
type admin struct {
	t    *testing.T
	addr string
}

// runEnvoy starts an Envoy that gets all its configuration by xDS. It ends with the test.
func runEnvoy(t *testing.T, xds string, mode stream.Mode) admin {
	t.Helper()
	apiType := "GRPC"
	if mode == stream.Delta {
		apiType = "DELTA_GRPC"
	}
	host, port, err := net.SplitHostPort(xds)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("APITYPE", apiType, "HOST", host, "PORT", port).Replace(bootstrap)
	return admin{t, envoy.Start(t, envoy.Options{Bootstrap: []byte(config)}).Admin()}
}

// stat returns one of Envoy's counters or gauges.
func (a admin) stat(name string) string {
	a.t.Helper()
	client := &http.Client{Timeout: limit, Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://" + a.addr + "/stats?filter=^" + name + "$")
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(b)), ": ")
	return value
}

const bootstrap = `
node: {id: "sidecar~127.0.0.1~lab.default~default.svc.cluster.local", cluster: lab}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
dynamic_resources:
  ads_config:
    api_type: APITYPE
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{envoy_grpc: {cluster_name: xds}}]
  cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
  lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
static_resources:
  clusters:
  - name: xds
    connect_timeout: 1s
    type: STATIC
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: HOST, port_value: PORT}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`
