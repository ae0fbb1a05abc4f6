package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestOwnProxyMetadata tests the idle timeout and the HTTP proxy port of proxies: their own metadata
// decides, malformed values are as if not set, and proxies that agree with the mesh share its
// settings.
func TestOwnProxyMetadata(t *testing.T) {
	const unset = -1
	m := fixture.New(t, nil, []byte(`
proxyHttpPort: 15002
defaultConfig: {proxyMetadata: {ISTIO_META_IDLE_TIMEOUT: 60s, ISTIO_META_HTTP_PROXY_PORT: "15003", OTHER: kept}}
`))
	for name, c := range map[string]struct {
		idle, port string
		shared     bool
		wantIdle   time.Duration
		wantPort   uint32
	}{
		"as the mesh":      {"60s", "15003", true, time.Minute, 15003},
		"in another form":  {"1m", "15003", true, time.Minute, 15003},
		"not set":          {"", "", false, unset, 15002},
		"own":              {"300s", "15007", false, 5 * time.Minute, 15007},
		"zero":             {"0s", "0", false, 0, 0},
		"malformed":        {"soon", "http", false, unset, 15002},
		"out of the range": {"-1s", "65536", false, unset, 15002},
	} {
		t.Run(name, func(t *testing.T) {
			v := m.View(fixture.Proxy(t, fmt.Appendf(nil, "{idleTimeout: %q, httpProxyPort: %q}", c.idle, c.port)))
			if shared := v.Settings == m.Snapshot().Settings; shared != c.shared {
				t.Errorf("shares the mesh's settings: %v, want %v", shared, c.shared)
			}
			idle, ok := v.Settings.IdleTimeout()
			if !ok {
				idle = unset
			}
			if port := v.Settings.HTTPProxyPort(); idle != c.wantIdle || port != c.wantPort {
				t.Errorf("idle timeout %v, port %d, want %v, %d", idle, port, c.wantIdle, c.wantPort)
			}
			if got := v.Settings.Mesh.GetDefaultConfig().GetProxyMetadata()["OTHER"]; got != "kept" {
				t.Errorf("the mesh's other entry is %q", got)
			}
		})
	}
}

// TestOwnTracing tests which tracing settings of a proxy's own ProxyConfig precede the mesh's, and
// that the tracer, which only the bootstrap has, separates no proxies.
func TestOwnTracing(t *testing.T) {
	m := fixture.New(t, nil, []byte(`
defaultConfig: {tracingServiceName: CANONICAL_NAME_ONLY, tracing: {sampling: 5, zipkin: {address: "a:9411"}, customTags: {a: {literal: {value: x}}}}}
`))
	for name, c := range map[string]struct {
		config   string
		shared   bool
		sampling float64
		tags     int
	}{
		"none":                {"{tracingServiceName: APP_LABEL_AND_NAMESPACE}", true, 5, 1},
		"as the mesh":         {`{tracing: {sampling: 5, customTags: {a: {literal: {value: x}}}}}`, true, 5, 1},
		"with another tracer": {`{tracing: {sampling: 5, zipkin: {address: "b:9411"}, customTags: {a: {literal: {value: x}}}}}`, true, 5, 1},
		"own":                 {"{tracing: {sampling: 100}}", false, 100, 0},
		"empty":               {"{tracing: {}}", false, 0, 0},
		"malformed":           {"{tracing: {sampling: often}}", true, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := m.View(fixture.Proxy(t, []byte("proxyConfig: "+c.config)))
			if shared := v.Settings == m.Snapshot().Settings; shared != c.shared {
				t.Errorf("shares the mesh's settings: %v, want %v", shared, c.shared)
			}
			got := v.Settings.Mesh.GetDefaultConfig().GetTracing()
			if got.GetSampling() != c.sampling || len(got.GetCustomTags()) != c.tags {
				t.Errorf("tracing %v, want sampling %v and %d tags", got, c.sampling, c.tags)
			}
		})
	}
}

// TestTracerWithoutSettings tests that a proxy with a tracer of its own differs from a mesh without
// tracing settings: its spans have Istio's tags.
func TestTracerWithoutSettings(t *testing.T) {
	m := fixture.New(t, nil, nil)
	v := m.View(fixture.Proxy(t, []byte(`proxyConfig: {tracing: {zipkin: {address: "a:9411"}}}`)))
	if v.Settings.Mesh.GetDefaultConfig().GetTracing() == nil {
		t.Error("the proxy has no tracing settings")
	}
}
