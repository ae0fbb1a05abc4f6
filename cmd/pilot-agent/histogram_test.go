package main

import (
	"slices"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestHistogramAnnotations tests that the buckets of the mesh's metrics follow the annotation with
// the names that the metrics have in Istio's proxy, and that bins do not replace them.
func TestHistogramAnnotations(t *testing.T) {
	t.Parallel()
	app := newService(t)
	port := serving.FreePort(t)
	l := listener(t, corev3.TrafficDirection_OUTBOUND, "127.0.0.1", port, "outbound_127.0.0.1_80;", "outbound|80||a")
	manager := new(hcmv3.HttpConnectionManager)
	filter := l.FilterChains[0].Filters[0]
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	config := &statsv3.Config{StatsScope: new(typev3.Scope)}
	for _, name := range []string{"istio_ms", "istio_rx"} { // as the control plane names them
		config.Histograms = append(config.Histograms, &statsv3.Config_Histogram{
			Stat:        &statsv3.Config_Stat{Name: name, Tags: []*statsv3.Config_Tag{{Name: "standard", ValueFormat: "r=s|c=%RESPONSE_CODE%"}}},
			ValueFormat: "%DURATION%",
		})
	}
	manager.AccessLog = []*accesslogv3.AccessLog{{Name: "stats", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(t, config)}}}
	filter.GetTypedConfig().Reset()
	if err := filter.GetTypedConfig().MarshalFrom(manager); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, settings{
		config: map[string]any{"discoveryAddress": localControlPlane(t, cluster("outbound|80||a", "127.0.0.1", app.port), l)},
		env: []string{`ISTIO_METAJSON_ANNOTATIONS={"sidecar.istio.io/statsHistogramBins":"50",` +
			`"sidecar.istio.io/statsHistogramBuckets":"{\"istiocustom\":[7,70],\"istiocustom.istio_request_duration\":[3,30]}"}`},
	})
	a.awaitReady(t)
	check(t, want(get(port, "/"), 200, "hello"))
	for metric, bounds := range map[string][]string{
		"istio_request_duration_milliseconds": {"3", "30", "+Inf"},
		"istio_request_bytes":                 {"7", "70", "+Inf"},
	} {
		var got []string
		serving.Eventually(t, patience, metric+" is scraped", func() error {
			text := get(a.metrics, "/stats/prometheus")
			got = nil
			for line := range strings.Lines(text.body) {
				if strings.HasPrefix(line, metric+"_bucket{") {
					_, bound, _ := strings.Cut(line, `le="`)
					bound, _, _ = strings.Cut(bound, `"`)
					got = append(got, bound)
				}
			}
			return want(text, 200, metric+"_bucket{")
		})
		if !slices.Equal(got, bounds) {
			t.Errorf("%s has the buckets %v, want %v", metric, got, bounds)
		}
	}
}
