package identity

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// httpVersions: an EnvoyFilter changes the HTTP version that the client's sidecar speaks to other proxies. The ALPN names
// follow, so both proxies speak the same version, and calls of HTTP/1.1 and HTTP/2 succeed.
func httpVersions(t *testing.T, w *world) {
	const typed = `typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {` +
		`"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, `
	w.writeConfig(t, "between", betweenFilter)
	defer w.writeConfig(t, "between", "")
	serving.Eventually(t, effectTime, "the server's sidecar reports the version", func() error {
		if w.postSecret(t, "", "").Header.Get("x-between") == "" {
			return errors.New("it does not")
		}
		return nil
	})
	for _, c := range []struct {
		name, value string
		offered     []string
		between     string // HTTP version between the proxies for a request of HTTP/1.1
	}{
		{"no patch", "", []string{"istio-http/1.1", "istio", "http/1.1"}, "HTTP/1.1"},
		{"http2_protocol_options", "http2_protocol_options: {}", []string{"istio-h2", "istio", "h2"}, "HTTP/2"},
		{"explicit HTTP/2", typed + "explicit_http_config: {http2_protocol_options: {}}}}", []string{"istio-h2", "istio", "h2"}, "HTTP/2"},
		{"the client's", typed + "use_downstream_protocol_config: {http2_protocol_options: {}}}}", []string{"istio-http/1.1", "istio"}, "HTTP/1.1"},
		{"no patch again", "", []string{"istio-http/1.1", "istio", "http/1.1"}, "HTTP/1.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.writeConfig(t, "version", versionFilter(c.value))
			serving.Eventually(t, effectTime, "the client offers other names", func() error {
				if got := w.spied(t, "8480").offered; !slices.Equal(got, c.offered) {
					return fmt.Errorf("it offers %q, want %q", got, c.offered)
				}
				return nil
			})
			serving.Eventually(t, effectTime, "the proxies speak "+c.between, func() error {
				if spoken := w.postSecret(t, "", "").Header.Get("x-between"); spoken != c.between {
					return fmt.Errorf("they speak %s", spoken)
				}
				return nil
			})
			got := w.postSecret(t, "", c.name)
			if got.Body != c.name || got.Header.Get(clientCert) == "" {
				t.Errorf("the server got %q, by mutual TLS %t", got.Body, got.Header.Get(clientCert) != "")
			}
			if status, err := w.overHTTP2(t, "8082"); err != nil || status != http.StatusOK {
				t.Errorf("HTTP/2 at a port of HTTP/2: %d, %v", status, err)
			}
			if status, err := w.overHTTP2(t, toldPort); err != nil || status != http.StatusOK {
				t.Errorf("HTTP/2 at a port of HTTP/1.1: %d, %v", status, err)
			}
			if ok, err := w.answers(t, nil); !ok {
				t.Errorf("a client without a proxy: %v", err)
			}
		})
	}
}

// betweenFilter makes the server's sidecar report the HTTP version of received requests.
const betweenFilter = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: between, namespace: default}
spec:
  workloadSelector: {labels: {app: server}}
  configPatches:
  - applyTo: VIRTUAL_HOST
    match: {context: SIDECAR_INBOUND}
    patch: {operation: MERGE, value: {request_headers_to_add: [{header: {key: x-between, value: "%PROTOCOL%"}}]}}
`

// versionFilter returns an EnvoyFilter that merges a value into the client's outbound clusters, or
// "" without a value.
func versionFilter(value string) string {
	if value == "" {
		return ""
	}
	return `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: version, namespace: default}
spec:
  workloadSelector: {labels: {app: client}}
  configPatches:
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND, cluster: {}}
    patch: {operation: MERGE, value: {` + value + `}}
`
}

// overHTTP2 calls a port of the server over a connection of HTTP/2 in the clear, which the client's sidecar reads.
func (w *world) overHTTP2(t *testing.T, port string) (int, error) {
	t.Helper()
	transport := &http.Transport{DialContext: w.dial(serverAddress), Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: effectTime}).Get("http://server.mesh:" + port + "/")
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
