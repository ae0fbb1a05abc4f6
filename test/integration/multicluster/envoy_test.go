package multicluster

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// proxy says who an Envoy is.
type proxy struct {
	kind, address, name, namespace string
	labels, cluster, network       string // labels are "key: value, …"
	token                          string // of its service account; "": it connects in plain text
	more                           string // of the node's metadata, "KEY: value, …"
}

// run starts the Envoy, and returns the address of its administration.
func (x proxy) run(t *testing.T, p *controlPlane) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(p.Secure)
	admin := serving.FreeAddress(t)
	adminHost, adminPort, _ := net.SplitHostPort(admin)
	more := "MESHPILOT_IDENTITY: none"
	if x.more != "" {
		more += ", " + x.more
	}
	text := strings.NewReplacer(
		"NODEID", fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", x.kind, x.address, x.name, x.namespace, x.namespace),
		"XLABELS", x.labels, "XNAMESPACE", x.namespace, "XCLUSTER", x.cluster, "XNETWORK", x.network, "XMORE", more, "TOKEN", x.token,
		"XDSHOST", host, "XDSPORT", port, "ADMINHOST", adminHost, "ADMINPORT", adminPort,
	).Replace(bootstrap)
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text), Ready: envoy.Live(admin)})
	return admin
}

const bootstrap = `
node:
  id: "NODEID"
  cluster: test
  metadata: {LABELS: {XLABELS}, NAMESPACE: "XNAMESPACE", CLUSTER_ID: "XCLUSTER", NETWORK: "XNETWORK", XMORE}
admin: {address: {socket_address: {address: ADMINHOST, port_value: ADMINPORT}}}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services:
    - envoy_grpc: {cluster_name: xds}
      initial_metadata: [{key: authorization, value: "Bearer TOKEN"}, {key: clusterid, value: "XCLUSTER"}]
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: XDSHOST, port_value: XDSPORT}}}}]}]
    transport_socket:
      name: tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: istiod.istio-system.svc
        common_tls_context: {alpn_protocols: [h2]}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
  - name: sds-grpc
    type: STATIC
    load_assignment: {cluster_name: sds-grpc, endpoints: []}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`
