package telemetry

import (
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestMetricsAreSmall bounds the bytes of metrics in a filter chain, of which each proxy is sent
// one for each TCP port of each service.
func TestMetricsAreSmall(t *testing.T) {
	m := fixture.New(t, nil, []byte("defaultProviders: {metrics: [prometheus]}"))
	made := NewTable().For(m.View(fixture.Proxy(t, nil)))
	size := func(list []*accesslogv3.AccessLog) (n int) {
		for _, l := range list {
			n += proto.Size(l)
		}
		return n
	}
	for _, test := range []struct {
		name  string
		list  []*accesslogv3.AccessLog
		bytes int
	}{
		{"client HTTP", made.Client.HTTPLogs, 840},
		{"server HTTP", made.Server.HTTPLogs, 720},
		{"client TCP", made.Client.TCPLogs, 730},
		{"server TCP", made.Server.TCPLogs, 610},
	} {
		n := size(test.list)
		t.Logf("%s: %d bytes", test.name, n)
		if n == 0 || n > test.bytes {
			t.Errorf("%s: %d bytes, want at most %d", test.name, n, test.bytes)
		}
	}
}
