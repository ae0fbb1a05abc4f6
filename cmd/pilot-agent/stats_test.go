package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestLabelsOfStatistics tests that names of clusters, listeners and their parts become labels, as
// Istio's dashboards expect, with the names that the control plane uses.
func TestLabelsOfStatistics(t *testing.T) {
	t.Parallel()
	const reviews = "outbound|9080|v1|reviews.default.svc.cluster.local"
	app := newService(t)
	p := serving.FreePorts(t, 4)
	// Istio's own control plane ends alternative names by a semicolon.
	ended := cluster("outbound|80||ended.default.svc.cluster.local", "127.0.0.1", app.port)
	ended.AltStatName = ended.GetName() + ";"
	address := localControlPlane(
		t,
		cluster(reviews, "127.0.0.1", app.port),
		ended,
		cluster("InboundPassthroughCluster", "127.0.0.1", 1),
		listener(t, corev3.TrafficDirection_OUTBOUND, "0.0.0.0", p[0], "outbound_0.0.0.0_9080;", reviews),
		listener(t, corev3.TrafficDirection_OUTBOUND, "::", p[1], "outbound_[::]_80;", ended.GetName()),
		listener(
			t,
			corev3.TrafficDirection_INBOUND,
			"127.0.0.1",
			p[2],
			"InboundPassthroughCluster",
			"InboundPassthroughCluster",
		),
		tcpListener(t, p[3], reviews),
	)
	a := startAgent(t, settings{config: map[string]any{
		"discoveryAddress":  address,
		"proxyStatsMatcher": map[string]any{"inclusionRegexps": []string{".*"}},
		"extraStatTags":     []string{"response_code"},
	}})
	a.awaitReady(t)
	check(t, want(get(p[0], "/"), 200, "hello"))
	check(t, want(callHost("GET", "::1", p[1], "/", nil), 200, "hello"))
	check(t, want(get(p[2], "/"), 503, ""))
	check(t, want(get(p[3], "/"), 200, "hello"))

	got := series(t, get(a.metrics, "/stats/prometheus").body)
	v4, v6 := "0.0.0.0_"+strconv.Itoa(p[0]), "[__]_"+strconv.Itoa(p[1])
	for _, want := range []string{
		`envoy_cluster_upstream_rq{cluster_name="` + reviews + `",response_code="200"} 1`,
		`envoy_cluster_upstream_rq{cluster_name="` + reviews + `",response_code_class="2xx"} 1`,
		`envoy_cluster_upstream_rq_completed{cluster_name="` + reviews + `"} 1`,
		`envoy_cluster_upstream_cx_total{cluster_name="` + reviews + `"} 2`,
		`envoy_cluster_external_upstream_rq{cluster_name="` + reviews + `",response_code="200"} 1`,
		`envoy_cluster_circuit_breakers_default_cx_open{cluster_name="` + reviews + `"} 0`,
		`envoy_cluster_default_total_match_count{cluster_name="` + reviews + `"} 1`,
		`envoy_cluster_upstream_rq{cluster_name="` + ended.GetName() + `",response_code="200"} 1`,
		`envoy_cluster_upstream_rq{cluster_name="InboundPassthroughCluster",response_code="503"} 1`,
		`envoy_http_downstream_rq{http_conn_manager_prefix="outbound_0.0.0.0_9080",response_code_class="2xx"} 1`,
		`envoy_http_downstream_rq{http_conn_manager_prefix="outbound_[__]_80",response_code_class="2xx"} 1`,
		`envoy_http_downstream_rq{http_conn_manager_prefix="InboundPassthroughCluster",response_code_class="5xx"} 1`,
		`envoy_listener_http_downstream_rq{http_conn_manager_listener_prefix="outbound_0.0.0.0_9080",listener_address="` + v4 + `",response_code_class="2xx"} 1`,
		`envoy_listener_http_downstream_rq{http_conn_manager_listener_prefix="outbound_[__]_80",listener_address="` + v6 + `",response_code_class="2xx"} 1`,
		`envoy_listener_downstream_cx_total{listener_address="` + v4 + `"} 1`,
		`envoy_listener_downstream_cx_total{listener_address="` + v6 + `"} 1`,
		`envoy_tcp_downstream_cx_total{tcp_prefix="` + reviews + `"} 1`,
		`envoy_cluster_manager_cds_update_success{} 1`,
	} {
		if !got[want] {
			t.Errorf("no %s", want)
		}
	}
	// No name of an object remains in the name of a metric, except those of virtual hosts, as with
	// Istio.
	left := regexp.MustCompile(`^envoy_(cluster|http|listener|tcp)_.*(outbound__|svc|9080|xds|0_0|Passthrough)`)
	for s := range got {
		if left.MatchString(strings.SplitN(s, "{", 2)[0]) {
			t.Errorf("%s has a name in its name", s)
		}
	}
}

// TestDefaultStatistics tests that statistics for operators are included by default, and none per
// cluster of the mesh.
func TestDefaultStatistics(t *testing.T) {
	t.Parallel()
	app := newService(t)
	port := serving.FreePort(t)
	address := localControlPlane(
		t,
		cluster("outbound|80||a", "127.0.0.1", app.port),
		listener(t, corev3.TrafficDirection_OUTBOUND, "127.0.0.1", port, "outbound_127.0.0.1_80;", "outbound|80||a"),
	)
	a := startAgent(t, settings{config: map[string]any{"discoveryAddress": address}})
	a.awaitReady(t)
	check(t, want(get(port, "/"), 200, "hello"))
	text := get(a.metrics, "/stats/prometheus").body
	for _, want := range []string{
		`envoy_cluster_upstream_cx_total{cluster_name="xds-grpc"}`, "envoy_server_live", "envoy_control_plane_connected_state",
		"envoy_cluster_manager_active_clusters", "envoy_listener_manager_lds_update_success",
		// Only of routes with a stat_prefix, which is set for this purpose.
		`envoy_vhost_reviews_default_svc_cluster_local_9080_route_all_upstream_rq{response_code="200"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, tooMuch := range []string{"outbound|80||a", "outbound_127.0.0.1_80"} {
		if strings.Contains(text, tooMuch) {
			t.Errorf("statistics of %s", tooMuch)
		}
	}
}

// series parses Prometheus's text into "name{label="value",…} number", labels sorted by name.
func series(t *testing.T, text string) map[string]bool {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				if _, twice := labels[l.GetName()]; twice {
					t.Errorf("%s has the label %s twice", name, l.GetName())
				}
				labels[l.GetName()] = l.GetValue()
			}
			all[name+sortedLabels(labels)+" "+strconv.Itoa(int(m.GetCounter().GetValue()+m.GetGauge().GetValue()+m.GetUntyped().GetValue()))] = true
		}
	}
	if len(all) == 0 {
		t.Fatalf("no series in %q", text)
	}
	return all
}

func sortedLabels(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+`="`+labels[name]+`"`)
	}
	return "{" + strings.Join(list, ",") + "}"
}
