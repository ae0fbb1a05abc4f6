package authorization

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestHeadersOfEnvoyAreNotTrusted: an external client of a gateway cannot control by headers how
// requests are routed, retried or logged, or its own identity, even from a private address.
// T-XENVOY-TRUST.
func TestHeadersOfEnvoyAreNotTrusted(t *testing.T) {
	names := []string{
		"x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-max-retries", "x-envoy-original-path", "x-envoy-original-host", "x-envoy-upstream-rq-timeout-ms",
		"x-envoy-upstream-rq-per-try-timeout-ms", "x-envoy-expected-rq-timeout-ms", "x-envoy-upstream-alt-stat-name", "x-envoy-decorator-operation",
		"x-envoy-hedge-on-per-try-timeout", "x-envoy-ip-tags", "x-envoy-internal", "x-envoy-external-address", "x-envoy-attempt-count", "x-envoy-force-trace",
		"x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node", "x-forwarded-client-cert",
	}
	scenes, tokens, authority := readScenes(t), newTokens(t), newSecrets()
	scenes = slices.DeleteFunc(scenes, func(s *scene) bool { return s.name != "gateway" })
	scenes[0].withKeys(tokens)
	start(t, scenes, authority, tokens)
	for _, http2 := range []bool{false, true} {
		for _, from := range []string{"127.0.0.1", "127.10.0.1"} {
			for _, said := range []string{"", "x-forwarded-for: 10.0.0.1", "x-forwarded-for: 8.8.8.8, 10.0.0.1"} {
				c := &testCase{scene: scenes[0], Name: "headers", To: "edge:8080", Host: "shop.example.com", Call: "GET /shop", HTTP2: http2, From: netip.MustParseAddr(from)}
				c.Headers = append(c.Headers, "x-other: "+forged)
				for _, n := range names {
					c.Headers = append(c.Headers, n+": "+forged)
				}
				if said != "" {
					c.Headers = append(c.Headers, said)
				}
				o := c.do(t.Context(), t, authority, tokens)
				if o.status != 200 || o.body != "/shop" {
					t.Fatalf("from %s, %s: %s", from, said, o)
				}
				seen := strings.Split(o.seen, ",")
				if !slices.Contains(seen, "x-other") {
					t.Fatalf("the application sees %q: the test is not effective", o.seen)
				}
				for _, n := range seen {
					if n != "x-other" {
						t.Errorf("from %s, with %q: the application receives the caller's %s", from, said, n)
					}
				}
			}
		}
	}
}
