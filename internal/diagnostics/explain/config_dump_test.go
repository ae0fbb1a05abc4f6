package explain

import (
	"strings"
	"testing"
)

// foreignDump is a part of what an Envoy of istiod dumps: with types that this program does not have,
// fields of a newer release, a listener that is warming, and names with underscores.
const foreignDump = `{"configs": [
 {"@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump", "bootstrap": {"node": {
   "id": "sidecar~10.1.0.9~web-1.shop~shop.svc.cluster.local", "metadata": {"ISTIO_VERSION": "1.31.0"}}}},
 {"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump", "dynamic_active_clusters": [
   {"cluster": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "outbound|9080||reviews.shop.svc.cluster.local",
     "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}, "field_of_a_newer_release": 1}},
   {"cluster": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "outbound|5432||db.shop.svc.cluster.local",
     "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}}}]},
 {"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump", "dynamic_listeners": [
   {"name": "virtualOutbound", "active_state": {"listener": {"@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
     "name": "virtualOutbound", "address": {"socket_address": {"address": "0.0.0.0", "port_value": 15001}}, "use_original_dst": true}}},
   {"name": "0.0.0.0_9080", "active_state": {"listener": {"@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
     "name": "0.0.0.0_9080", "address": {"socket_address": {"address": "0.0.0.0", "port_value": 9080}},
     "filter_chains": [{"filters": [
       {"name": "istio.metadata_exchange", "typed_config": {"@type": "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange", "protocol": "istio-peer-exchange"}},
       {"name": "envoy.filters.network.http_connection_manager", "typed_config": {
         "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
         "rds": {"route_config_name": "9080", "config_source": {"ads": {}}},
         "http_filters": [
           {"name": "istio.stats", "typed_config": {"@type": "type.googleapis.com/stats.PluginConfig", "disable_host_header_fallback": true}},
           {"name": "envoy.filters.http.router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}}},
   {"name": "10.96.0.7_5432", "active_state": {"listener": {"@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
     "name": "10.96.0.7_5432", "address": {"socket_address": {"address": "10.96.0.7", "port_value": 5432}},
     "filter_chains": [{"filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": {
       "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster": "outbound|5432||db.shop.svc.cluster.local"}}]}]}}},
   {"name": "warming", "warming_state": {"listener": {"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "warming"}}}]},
 {"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump", "dynamic_route_configs": [
   {"route_config": {"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "9080", "virtual_hosts": [
     {"name": "reviews", "domains": ["reviews", "reviews:9080"], "routes": [{"match": {"prefix": "/"},
       "route": {"cluster": "outbound|9080||reviews.shop.svc.cluster.local"},
       "metadata": {"filter_metadata": {"istio": {"config": "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/reviews"}}}}]}]}}]},
 {"@type": "type.googleapis.com/envoy.admin.v3.EndpointsConfigDump", "dynamic_endpoint_configs": [
   {"endpoint_config": {"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
     "cluster_name": "outbound|9080||reviews.shop.svc.cluster.local", "endpoints": [{"lb_endpoints": [
       {"endpoint": {"address": {"socket_address": {"address": "10.1.0.1", "port_value": 9080}}}, "health_status": "HEALTHY"}]}]}},
   {"endpoint_config": {"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
     "cluster_name": "outbound|5432||db.shop.svc.cluster.local", "endpoints": [{"lb_endpoints": [
       {"endpoint": {"address": {"socket_address": {"address": "10.1.0.2", "port_value": 5432}}}}]}]}}]},
 {"@type": "type.googleapis.com/envoy.admin.v3.SecretsConfigDump"}
]}`

func TestExplainConfigDump(t *testing.T) {
	dump, err := ReadConfigDump([]byte(foreignDump))
	if err != nil {
		t.Fatal(err)
	}
	if len(dump.Resources.Listeners) != 3 || !dump.HasEndpoints {
		t.Errorf("%d listeners, endpoints: %t", len(dump.Resources.Listeners), dump.HasEndpoints)
	}
	for url, want := range map[string]string{
		"http://reviews:9080/":  "=> outbound|9080||reviews.shop.svc.cluster.local at 10.1.0.1:9080",
		"http://reviews:9080/x": "[VirtualService/shop/reviews]",
		"tcp://db:5432":         "outbound to 10.96.0.7:5432",
		"tcp://db.shop:5432":    "=> outbound|5432||db.shop.svc.cluster.local at 10.1.0.2:5432",
		"http://else:9080/":     "404 Not Found",
	} {
		call, err := ParseCall(Question{URL: url}, dump.Site())
		if err != nil {
			t.Fatal(err)
		}
		path, err := Explain(&dump.Resources, call)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(path.String(), want) || !path.Supported() {
			t.Errorf("%s: no %q in\n%s", url, want, path)
		}
	}
	call, err := ParseCall(Question{URL: "http://web:8080/", Inbound: true}, dump.Site())
	if err != nil || call.To.String() != "10.1.0.9:8080" {
		t.Errorf("an inbound call is to %s, %v", call.To, err)
	}
}

func TestReadConfigDumpRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "read the config dump", "{}": "has no active listeners", `{"configs": [{"@type": "/"}]}`: "read the config dump",
		`{"configs": [{"@type": "x/no.such.Section", "a": 1}]}`:                    "has no active listeners",
		strings.Replace(foreignDump, `"port_value": 9080`, `"port_value": "x"`, 1): "read the config dump",
	} {
		if _, err := ReadConfigDump([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// FuzzReadConfigDump: any dump that is read can be explained without a panic.
func FuzzReadConfigDump(f *testing.F) {
	f.Add(foreignDump)
	f.Fuzz(func(t *testing.T, text string) {
		dump, err := ReadConfigDump([]byte(text))
		if err != nil {
			return
		}
		call, err := ParseCall(Question{URL: "http://reviews:9080/"}, dump.Site())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = Explain(&dump.Resources, call) // an error is fine
	})
}
