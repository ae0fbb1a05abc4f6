package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestSecureMetrics tests that the ports of metrics with mutual TLS serve clients with a
// certificate of the mesh, and only single paths, while the ports without TLS are for this host
// only.
func TestSecureMetrics(t *testing.T) {
	p := serving.FreePorts(t, 2)
	envoyOnly, merged := p[0], p[1]
	m := newSecureMesh(t)
	m.start(t, "METRICS_LOCALHOST_ACCESS_ONLY=true",
		"ENVOY_SECURE_METRICS_PORT="+strconv.Itoa(envoyOnly), "ENVOY_SECURE_MERGED_METRICS_PORT="+strconv.Itoa(merged))
	client := m.root.Issue(&x509.Certificate{})
	for _, c := range []struct {
		port       int
		path, want string
	}{
		{envoyOnly, "/stats/prometheus", "envoy_server_live"},
		{merged, "/stats/prometheus", "envoy_server_live"},
		{merged, "/stats/prometheus", "istio_agent_"},
		{merged, "/metrics", "istio_agent_"},
	} {
		serving.Eventually(t, patience, fmt.Sprintf("%s at port %d has %s", c.path, c.port, c.want), func() error {
			status, body, err := scrape(client, m.root, c.port, c.path)
			if err == nil && (status != http.StatusOK || !strings.Contains(body, c.want)) {
				err = fmt.Errorf("status %d, %d bytes", status, len(body))
			}
			return err
		})
	}
	if _, body, err := scrape(client, m.root, envoyOnly, "/stats/prometheus"); err != nil || strings.Contains(body, "istio_agent_") {
		t.Errorf("the port of Envoy's own metrics has the agent's, or fails: %v", err)
	}
	stranger := pki.Authority("stranger").Issue(&x509.Certificate{})
	for _, port := range p {
		for _, path := range []string{"/config_dump", "/stats/prometheus/../../config_dump", "/healthz/ready", "/quitquitquit"} {
			if status, _, err := scrape(client, m.root, port, path); err != nil || status != http.StatusNotFound {
				t.Errorf("%s at port %d: status %d, %v; want 404", path, port, status, err)
			}
		}
		if _, _, err := scrape(stranger, m.root, port, "/stats/prometheus"); err == nil {
			t.Errorf("port %d serves a client with a certificate of another authority", port)
		}
		if got := get(port, "/stats/prometheus"); got.err == nil {
			t.Errorf("port %d serves a client without TLS: %d", port, got.status)
		}
	}
}

// scrape calls a path without normalizing it, with a client's certificate.
func scrape(client, root *pki.Pair, port int, path string) (status int, body string, err error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{client.TLS()}, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: root.Pool()})
			return err
		},
	}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: patience}
	answer, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
