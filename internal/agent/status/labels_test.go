package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

func productpage() node.Workload {
	return node.Workload{
		Name: "productpage-v1", Namespace: "shop", CanonicalService: "productpage", CanonicalRevision: "v1", App: "productpage",
		Version: "v1", Cluster: "Kubernetes",
	}
}

// labelsOf parses the labels of a rewritten line.
func labelsOf(t *testing.T, line string) map[string]string {
	t.Helper()
	_, rest, _ := strings.Cut(line, "{")
	text, _, ok := strings.Cut(rest, "} ")
	if !ok {
		t.Fatalf("%q has no labels", line)
	}
	values := map[string]string{}
	for _, l := range parseLabels(nil, text) {
		if _, twice := values[l.name]; twice {
			t.Errorf("label %s occurs twice: %s", l.name, line)
		}
		values[l.name] = l.value
	}
	return values
}

func rewritten(line string) string {
	return string(newLabeler(productpage()).rewriteMetrics([]byte(line)))
}

func TestLabelsOfAClient(t *testing.T) {
	got := rewritten(`envoy_istio_requests_total{standard="r=s|c=200|g=|f=-|` +
		`s=reviews.shop.svc.cluster.local;reviews;shop|p=reviews-v2;shop;reviews;v2;other|o=|n="} 3` + "\n")
	if name, _, _ := strings.Cut(got, "{"); name != "istio_requests_total" || !strings.HasSuffix(got, "} 3\n") {
		t.Errorf("got %s", got)
	}
	want := map[string]string{
		"reporter": "source", "source_workload": "productpage-v1", "source_workload_namespace": "shop", "source_canonical_service": "productpage",
		"source_canonical_revision": "v1", "source_principal": "unknown", "source_app": "productpage", "source_version": "v1", "source_cluster": "Kubernetes",
		"destination_workload": "reviews-v2", "destination_workload_namespace": "shop", "destination_canonical_service": "reviews",
		"destination_canonical_revision": "v2", "destination_principal": "unknown", "destination_app": "reviews", "destination_version": "v2",
		"destination_cluster": "other", "destination_service": "reviews.shop.svc.cluster.local", "destination_service_name": "reviews",
		"destination_service_namespace": "shop", "request_protocol": "http", "response_code": "200", "grpc_response_status": "",
		"response_flags": "-", "connection_security_policy": "unknown",
	}
	if diff := cmp.Diff(want, labelsOf(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLabelsOfAServer includes a peer whose certificate name imitates other fields.
func TestLabelsOfAServer(t *testing.T) {
	tests := []struct{ name, text, label, want string }{
		{"gRPC", "r=d|g=14|n=", "request_protocol", "grpc"},
		{"no certificate", "r=d|n=", "connection_security_policy", "none"},
		{"a dash", "r=d|n=-", "connection_security_policy", "none"},
		{"mTLS", "r=d|n=spiffe://td/ns/shop/sa/a", "connection_security_policy", "mutual_tls"},
		{"namespace", "r=d|n=spiffe://td/ns/shop/sa/a", "source_workload_namespace", "shop"},
		{"certified, no principal", "r=d|i=true|m=shop", "connection_security_policy", "mutual_tls"},
		{"uncertified, no principal", "r=d|i=false|m=-", "connection_security_policy", "none"},
		{"namespace, no principal", "r=d|i=true|m=shop", "source_workload_namespace", "shop"},
		{"no namespace, no principal", "r=d|i=true|m=-", "source_workload_namespace", "unknown"},
		{"no principal", "r=d|i=true|m=shop", "source_principal", ""},
		{"no SPIFFE ID", "r=d|n=https://shop/a/b/c", "source_workload_namespace", "unknown"},
		{"own side", "r=d", "destination_workload", "productpage-v1"},
		{"peer", "r=d", "source_workload", "unknown"},
		{"usual revision", "r=s|p=a;b;c;;d", "destination_canonical_revision", "latest"},
		{"no version", "r=s|p=a;b;c;;d", "destination_version", "unknown"},
		{"no peer", "r=s|p=", "destination_canonical_revision", "unknown"},
		{"forged", "r=d|o=own|n=x|c=200|r=s", "reporter", "destination"},
		{"forged, kept", "r=d|n=x|c=200", "source_principal", "x|c=200"},
		{"protocol is reported", "r=s|q=grpc|f=UF", "request_protocol", "grpc"},
		{"part removed", "destination_workload=!|r=s|p=!;b;c;d;e", "destination_workload", ""},
		{"removed", "source_cluster=!|r=s", "source_cluster", ""},
		{"reporter removed", "reporter=!|r=d", "reporter", ""},
		{"the others of it", "reporter=!|r=d", "destination_workload", "productpage-v1"},
		{"of a newer control plane", "r=s|z=1|zz=2|c=200", "response_code", "200"},
		{"not there", "r=s", "response_code", ""},
	}
	for _, test := range tests {
		got := labelsOf(t, rewritten(`envoy_istio_x{standard="`+test.text+`"} 1`+"\n"))
		if got[test.label] != test.want {
			t.Errorf("%s: %s is %q, want %q", test.name, test.label, got[test.label], test.want)
		}
		if _, there := got[test.label]; there != (test.want != "") {
			t.Errorf("%s: label %s exists: %v", test.name, test.label, there)
		}
	}
}

func TestOtherLabelsAndLinesStay(t *testing.T) {
	const buckets = `# TYPE envoy_istio_rx histogram
envoy_istio_rx_bucket{standard="r=s",host="a\"b,c",none="",le="0.5"} 0
envoy_istio_rx_bucket{standard="r=s",host="a\"b,c",none="",le="+Inf"} 2
envoy_istio_rx_sum{standard="r=s",reporter="mine"} 14
envoy_istio_other{a="b"} 1
envoy_istio_bare 1
envoy_cluster_upstream_cx_total{cluster_name="outbound|80||a"} 9
`
	got := strings.Split(rewritten(buckets), "\n")
	if diff := cmp.Diff([]string{`envoy_cluster_upstream_cx_total{cluster_name="outbound|80||a"} 9`, "# TYPE istio_request_bytes histogram"}, got[:2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, le := range []string{"0.5", "+Inf"} {
		if l := labelsOf(t, got[2+i]); l["le"] != le || l["host"] != `a\"b,c` || l["none"] != "unknown" || l["reporter"] != "source" {
			t.Errorf("got %s", got[2+i])
		}
	}
	if l := labelsOf(t, got[4]); l["reporter"] != "mine" {
		t.Errorf("got %s", got[4])
	}
	if diff := cmp.Diff([]string{`istio_other{a="b"} 1`, "istio_bare 1", ""}, got[5:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// valuesOf returns the value of each line of the rewritten text, by metric and some labels.
func valuesOf(t *testing.T, text string, labels ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(rewritten(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			got[line] = ""
			continue
		}
		key, _, _ := strings.Cut(line, "{")
		of := labelsOf(t, line)
		for _, name := range labels {
			key += " " + of[name]
		}
		if _, twice := got[key]; twice {
			t.Errorf("series %s occurs twice", key)
		}
		got[key] = line[strings.LastIndexByte(line, ' ')+1:]
	}
	return got
}

// TestRequestsWithSeparateLabels uses a separate counter on one side, as if a user had
// changed its labels.
func TestRequestsWithSeparateLabels(t *testing.T) {
	got := valuesOf(t, `# TYPE envoy_istio_requests_total counter
envoy_istio_requests_total{standard="r=d|c=200",path="x"} 7
# TYPE envoy_istio_ms histogram
envoy_istio_ms_bucket{standard="r=s|c=200",le="+Inf"} 3
envoy_istio_ms_sum{standard="r=s|c=200"} 14.5
envoy_istio_ms_count{standard="r=s|c=200"} 3
# TYPE envoy_istio_request_duration_milliseconds histogram
envoy_istio_request_duration_milliseconds_count{standard="r=d|c=200"} 7
`, "reporter", "path", "le")
	want := map[string]string{
		"# TYPE istio_requests_total counter": "", "istio_requests_total destination x ": "7", "istio_requests_total source  ": "3",
		"# TYPE istio_request_duration_milliseconds histogram": "", "istio_request_duration_milliseconds_bucket source  +Inf": "3",
		"istio_request_duration_milliseconds_sum source  ": "14.5", "istio_request_duration_milliseconds_count source  ": "3",
		"istio_request_duration_milliseconds_count destination  ": "7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConnectionsAreOpenedAndClosed(t *testing.T) {
	got := valuesOf(t, `# TYPE envoy_istio_tcp counter
envoy_istio_tcp{standard="r=s|k=TcpUpstreamConnected|f=-"} 5
envoy_istio_tcp{standard="r=s|k=TcpConnectionEnd|f=-"} 4
envoy_istio_tcp{standard="r=s|k=TcpConnectionEnd|f=UF,URX"} 2
envoy_istio_tcp{standard="r=s|k=TcpUpstreamConnected|f=UF"} 9
envoy_istio_tcp{standard="r=s|k=OfANewerEnvoy|f=-"} 9
# TYPE envoy_istio_tcp_rx counter
envoy_istio_tcp_rx{standard="r=s|f=-"} 80
# TYPE envoy_istio_tcp_tx counter
envoy_istio_tcp_tx{standard="r=s|f=-"} 90
`, "request_protocol", "response_flags")
	want := map[string]string{
		"# TYPE istio_tcp_connections_opened_total counter": "", "istio_tcp_connections_opened_total tcp -": "5", "istio_tcp_connections_opened_total tcp UF,URX": "2",
		"# TYPE istio_tcp_connections_closed_total counter": "", "istio_tcp_connections_closed_total tcp -": "4", "istio_tcp_connections_closed_total tcp UF,URX": "2",
		"# TYPE istio_tcp_received_bytes_total counter": "", "istio_tcp_received_bytes_total tcp -": "80",
		"# TYPE istio_tcp_sent_bytes_total counter": "", "istio_tcp_sent_bytes_total tcp -": "90",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzRewrite truncates a text anywhere, and tests that metrics other than Istio's are unchanged.
func FuzzRewrite(f *testing.F) {
	f.Add("envoy_istio_x{standard=\"r=s|a=b\",le=\"1\"} 2\n")
	f.Add("# TYPE envoy_istio_ms histogram\nenvoy_istio_ms_count{standard=\"r=s\"} 2")
	f.Add("envoy_istio_x{\n# TYPE envoy_istio_\nenvoy_istio_{le=\"\nother")
	f.Fuzz(func(t *testing.T, text string) {
		var others strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(strings.TrimPrefix(line, "# TYPE "), "envoy_istio_") {
				others.WriteString(line)
			}
		}
		if got := rewritten(text); !strings.HasPrefix(got, others.String()) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// BenchmarkRewrite rewrites a scrape of 100 series with the 22 lines of a histogram each.
func BenchmarkRewrite(b *testing.B) {
	var text strings.Builder
	text.WriteString("# TYPE envoy_istio_rx histogram\n")
	for i := range 100 {
		for range 22 {
			text.WriteString(`envoy_istio_rx_bucket{standard="r=s|c=200|g=|f=-|s=reviews.` +
				string(rune('a'+i%26)) + string(rune('a'+i/26)) + `.svc.cluster.local;reviews;shop|p=reviews-v2;shop;reviews;v2;other|o=|n=",le="5"} 3` + "\n")
		}
	}
	in := []byte(text.String())
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		newLabeler(productpage()).rewriteMetrics(in)
	}
}
