package check

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"strings"
)

// nameResolves fails if the host of the control plane's address does not resolve. It is skipped if
// the address is unknown.
func (m *Machine) nameResolves(ctx context.Context) outcome {
	host, _, err := net.SplitHostPort(m.discovery)
	if err != nil {
		return skip("the address of the control plane is unknown")
	}
	addresses, err := m.LookupHost(ctx, host)
	if err != nil {
		return fail("%v", err)
	}
	return pass("%s", strings.Join(addresses, ", "))
}

// controlPlaneAnswers fails if the control plane does not accept a connection, or if its
// certificate is not signed by the mesh's roots for its name. It is skipped if the roots are
// unknown.
func (m *Machine) controlPlaneAnswers(ctx context.Context) outcome {
	if m.roots == nil {
		return skip("the roots of the mesh are unknown")
	}
	host, _, err := net.SplitHostPort(m.discovery)
	if err != nil {
		return fail("%v", err)
	}
	raw, err := m.Dial(ctx, "tcp", m.discovery)
	if err != nil {
		return fail("%v", err)
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{
		RootCAs:    m.roots,
		ServerName: host,
		NextProtos: []string{"h2"},
		MinVersion: tls.VersionTLS12,
		Time:       m.Now,
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		return fail("%s: %v", m.discovery, err)
	}
	return pass("%s", m.discovery)
}

// envoyReady fails if the agent does not report that Envoy is ready. It fails for any answer but
// 200.
func (m *Machine) envoyReady(ctx context.Context) outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ReadyURL, nil)
	if err != nil {
		return fail("%v", err)
	}
	answer, err := m.HTTP.Do(request)
	if err != nil {
		return fail("%v", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fail("%s answers %s", m.ReadyURL, answer.Status)
	}
	return pass("")
}

// documentationAddress is in a network that no host has (RFC 5737). Only Envoy accepts a connection
// to it, if the connection is captured.
const documentationAddress = "192.0.2.1:80"

// outboundCaptured fails if a connection to documentationAddress is not accepted. It is skipped if
// cluster.env restricts the addresses that are captured. It is also skipped if that file cannot be
// read.
func (m *Machine) outboundCaptured(ctx context.Context) outcome {
	text, err := os.ReadFile(m.path(environmentFile))
	if err != nil {
		return skip("%v", err)
	}
	for line := range strings.Lines(string(text)) {
		addresses, found := strings.CutPrefix(strings.TrimSpace(line), "ISTIO_SERVICE_CIDR=")
		if found && strings.Trim(addresses, `'"`) != "*" {
			return skip("only %s is captured", addresses)
		}
	}
	conn, err := m.Dial(ctx, "tcp", documentationAddress)
	if err != nil {
		return fail("a connection to %s, which only Envoy accepts, failed: %v", documentationAddress, err)
	}
	conn.Close()
	return pass("")
}
