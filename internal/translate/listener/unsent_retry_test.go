package listener

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestUnsentRequestsAreRetried: an inbound route repeats a request that was not sent to the
// application, twice, with any content-type and without one. It repeats no gRPC request, because
// Envoy would keep the body of each stream for that (TestStreamMemory), and none at ports that are
// declared as HTTP/2 or gRPC.
func TestUnsentRequestsAreRetried(t *testing.T) {
	v := fixture.New(t, []byte(`
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.1
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: http2, port: 83, targetPort: 8083}
  - {name: undeclared, port: 84, targetPort: 8084}
---
{kind: Pod, metadata: {name: client, labels: {app: web}}, status: {podIP: 10.9.9.9, phase: Running}}
`), nil).View(fixture.Proxy(t, nil))
	ports := map[string]string{
		"10.9.9.9:8080": "inbound|8080||", "10.9.9.9:8083": "inbound|8083||", "10.9.9.9:8084": "inbound|8084||",
		"10.9.9.9:8085": mesh.InboundPassthroughCluster, // of no service
	}
	s := &stage{t: t, routed: true, forwardTo: "outbound", known: map[string]bool{}}
	for _, name := range ports {
		s.known[name] = true
		s.clusters = append(s.clusters, refusingCluster(t, name))
	}
	e := s.start(listenersOf(t, NewGenerator(), v))
	want := map[string]int{}
	for _, tc := range []struct {
		port, contentType string
		retries           int
	}{
		{"10.9.9.9:8080", "", 2},
		{"10.9.9.9:8080", "application/grpc", 0},
		{"10.9.9.9:8083", "", 0},
		{"10.9.9.9:8084", "", 2},
		{"10.9.9.9:8084", "application/json", 2},
		{"10.9.9.9:8084", "application/grpc", 0},
		{"10.9.9.9:8084", "application/grpc-web+proto", 0},
		{"10.9.9.9:8085", "text/plain", 2},
		{"10.9.9.9:8085", "application/grpc+proto", 0},
	} {
		e.requestRefused(t, tc.port, tc.contentType)
		cluster := ports[tc.port]
		want[cluster] += tc.retries
		counter := "cluster." + cluster + ".upstream_rq_retry: "
		if stats := e.admin(t, "/stats?filter=upstream_rq_retry$"); !strings.Contains(stats, fmt.Sprintf("%s%d\n", counter, want[cluster])) {
			t.Fatalf("port %s, content-type %q: want %s%d, got\n%s", tc.port, tc.contentType, counter, want[cluster], stats)
		}
	}
}

// refusingCluster returns a cluster whose endpoint refuses connections.
func refusingCluster(t *testing.T, name string) *clusterv3.Cluster {
	endpoint := &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
		Address: pipe(filepath.Join(t.TempDir(), "none")),
	}}}
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{endpoint}}},
		},
	}
}

// requestRefused sends a request of a content-type, or without one, to an inbound port, and reads
// the answer.
func (e *runningEnvoy) requestRefused(t *testing.T, port, contentType string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return e.connect(virtualInbound, port)
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://web/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
}
