package bootstrap

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// extract applies the rules as Envoy does: each rule sees the whole name, and everything that they
// match is removed from it. It fails the test if two rules return the same label.
func extract(t *testing.T, name string) (string, map[string]string) {
	t.Helper()
	labels := map[string]string{}
	cut := make([]bool, len(name))
	for _, r := range tagRules() {
		m := regexp.MustCompile(r.regex).FindStringSubmatchIndex(name)
		if m == nil {
			continue
		}
		if _, twice := labels[r.label]; twice {
			t.Errorf("%s: two rules return the label %s", name, r.label)
		}
		labels[r.label] = name[m[4]:m[5]]
		for i := m[2]; i < m[3]; i++ {
			cut[i] = true
		}
	}
	var rest []byte
	for i := range len(name) {
		if !cut[i] {
			rest = append(rest, name[i])
		}
	}
	return string(rest), labels
}

// TestTagRules uses names of Envoy 1.40, in which it has replaced colons by underscores.
func TestTagRules(t *testing.T) {
	const reviews = "outbound|9080|v1|reviews.default.svc.cluster.local"
	tests := []struct {
		name, rest string
		labels     map[string]string
	}{
		{"cluster." + reviews + ".upstream_cx_total", "cluster.upstream_cx_total", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".upstream_rq_503", "cluster.upstream_rq", map[string]string{"cluster_name": reviews, "response_code": "503"}},
		{"cluster." + reviews + ".upstream_rq_5xx", "cluster.upstream_rq", map[string]string{"cluster_name": reviews, "response_code_class": "5xx"}},
		{"cluster." + reviews + ".upstream_rq_time", "cluster.upstream_rq_time", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".version", "cluster.version", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".external.upstream_rq_200", "cluster.external.upstream_rq", map[string]string{"cluster_name": reviews, "response_code": "200"}},
		{"cluster." + reviews + ".internal.upstream_rq_completed", "cluster.internal.upstream_rq_completed", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".circuit_breakers.default.cx_open", "cluster.circuit_breakers.default.cx_open", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".default.total_match_count", "cluster.default.total_match_count", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".http2.rx_reset", "cluster.http2.rx_reset", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".outlier_detection.ejections_active", "cluster.outlier_detection.ejections_active", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".ssl.handshake", "cluster.ssl.handshake", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".ssl.ciphers.TLS_AES_128_GCM_SHA256", "cluster.ssl.ciphers.TLS_AES_128_GCM_SHA256", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".ssl.versions.TLSv1.3", "cluster.ssl.versions.TLSv1.3", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ".zone.eu-1.eu-2.upstream_rq_200", "cluster.zone.eu-1.eu-2.upstream_rq", map[string]string{"cluster_name": reviews, "response_code": "200"}},
		{"cluster." + reviews + ".grpc.helloworld.Greeter.SayHello.success", "cluster.grpc.helloworld.Greeter.SayHello.success", map[string]string{"cluster_name": reviews}},

		// Namespaces, services and domains named like Envoy's groups.
		{"cluster.outbound|80||a.ssl.svc.cluster.local.upstream_cx_total", "cluster.upstream_cx_total", map[string]string{"cluster_name": "outbound|80||a.ssl.svc.cluster.local"}},
		{"cluster.outbound|80||version.internal.svc.cluster.local.upstream_rq_200", "cluster.upstream_rq", map[string]string{"cluster_name": "outbound|80||version.internal.svc.cluster.local", "response_code": "200"}},
		{"cluster.outbound|80||metadata.google.internal.upstream_cx_total", "cluster.upstream_cx_total", map[string]string{"cluster_name": "outbound|80||metadata.google.internal"}},
		{"cluster.outbound|443||*.example.com.lb_healthy_panic", "cluster.lb_healthy_panic", map[string]string{"cluster_name": "outbound|443||*.example.com"}},

		// Clusters with other names, and those of a control plane that ends names by a semicolon.
		{"cluster.inbound|9080||.upstream_cx_active", "cluster.upstream_cx_active", map[string]string{"cluster_name": "inbound|9080||"}},
		{"cluster.InboundPassthroughCluster.upstream_cx_active", "cluster.upstream_cx_active", map[string]string{"cluster_name": "InboundPassthroughCluster"}},
		{"cluster.xds-grpc.update_success", "cluster.update_success", map[string]string{"cluster_name": "xds-grpc"}},
		{"cluster." + reviews + ";.upstream_cx_total", "cluster.upstream_cx_total", map[string]string{"cluster_name": reviews}},
		{"cluster." + reviews + ";.internal.upstream_rq_200", "cluster.internal.upstream_rq", map[string]string{"cluster_name": reviews, "response_code": "200"}},
		{"cluster_manager.cds.update_success", "cluster_manager.cds.update_success", map[string]string{}},

		{"http.outbound_0.0.0.0_9080;.downstream_rq_total", "http.downstream_rq_total", map[string]string{"http_conn_manager_prefix": "outbound_0.0.0.0_9080"}},
		{"http.outbound_0.0.0.0_9080;.downstream_rq_2xx", "http.downstream_rq", map[string]string{"http_conn_manager_prefix": "outbound_0.0.0.0_9080", "response_code_class": "2xx"}},
		{"http.outbound_0.0.0.0_9080;.rds.9080.update_success", "http.rds.9080.update_success", map[string]string{"http_conn_manager_prefix": "outbound_0.0.0.0_9080"}},
		{"http.outbound_0.0.0.0_9080.rds.9080.update_success", "http.rds.9080.update_success", map[string]string{"http_conn_manager_prefix": "outbound_0.0.0.0_9080"}},
		{"http.inbound_[__]_9080;.downstream_cx_total", "http.downstream_cx_total", map[string]string{"http_conn_manager_prefix": "inbound_[__]_9080"}},
		{"http.outbound_fd00__1_9080;.downstream_cx_total", "http.downstream_cx_total", map[string]string{"http_conn_manager_prefix": "outbound_fd00__1_9080"}},
		{"http.InboundPassthroughCluster;.downstream_cx_total", "http.downstream_cx_total", map[string]string{"http_conn_manager_prefix": "InboundPassthroughCluster"}},
		{"http.InboundPassthroughCluster.downstream_cx_total", "http.downstream_cx_total", map[string]string{"http_conn_manager_prefix": "InboundPassthroughCluster"}},
		{"http.inbound_0.0.0.0_8000;.rbac.denied", "http.rbac", map[string]string{"http_conn_manager_prefix": "inbound_0.0.0.0_8000", "authz_enforce_result": "denied"}},
		{"http.inbound_0.0.0.0_8000;.rbac.istio_dry_run_deny_.shadow_allowed", "http.rbac", map[string]string{
			"http_conn_manager_prefix": "inbound_0.0.0.0_8000", "authz_dry_run_action": "deny", "authz_dry_run_result": "allowed",
		}},
		{"tcp." + reviews + ".route_delayed_total", "tcp.route_delayed_total", map[string]string{"tcp_prefix": reviews}},
		{"tcp.rbac.allowed", "tcp.rbac", map[string]string{"authz_enforce_result": "allowed"}},
		{"tcp.rbac.istio_dry_run_allow_.shadow_denied", "tcp.rbac", map[string]string{"authz_dry_run_action": "allow", "authz_dry_run_result": "denied"}},
		{"http.stats.downstream_cx_total", "http.downstream_cx_total", map[string]string{"http_conn_manager_prefix": "stats"}},

		{"listener.0.0.0.0_15006.downstream_cx_total", "listener.downstream_cx_total", map[string]string{"listener_address": "0.0.0.0_15006"}},
		{"listener.[__]_15006.downstream_cx_total", "listener.downstream_cx_total", map[string]string{"listener_address": "[__]_15006"}},
		{"listener.0.0.0.0_9080.worker_0.downstream_cx_active", "listener.worker_0.downstream_cx_active", map[string]string{"listener_address": "0.0.0.0_9080"}},
		{"listener.0.0.0.0_9080.http.outbound_0.0.0.0_9080;.downstream_rq_4xx", "listener.http.downstream_rq", map[string]string{
			"listener_address": "0.0.0.0_9080", "http_conn_manager_listener_prefix": "outbound_0.0.0.0_9080", "response_code_class": "4xx"}},
		{"listener.admin.downstream_cx_total", "listener.admin.downstream_cx_total", map[string]string{}},
		{"listener_manager.listener_added", "listener_manager.listener_added", map[string]string{}},

		{"tcp.outbound|9000||db.default.svc.cluster.local.downstream_cx_total", "tcp.downstream_cx_total", map[string]string{"tcp_prefix": "outbound|9000||db.default.svc.cluster.local"}},
		{"tcp.BlackHoleCluster.idle_timeout", "tcp.idle_timeout", map[string]string{"tcp_prefix": "BlackHoleCluster"}},
		{"mongo.outbound|27017||m.db.svc.cluster.local.op_query", "mongo.op_query", map[string]string{"mongo_prefix": "outbound|27017||m.db.svc.cluster.local"}},
	}
	for _, test := range tests {
		rest, labels := extract(t, test.name)
		if rest != test.rest {
			t.Errorf("%s:\n got %s\nwant %s", test.name, rest, test.rest)
		}
		if diff := cmp.Diff(test.labels, labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", test.name, diff)
		}
	}
}
