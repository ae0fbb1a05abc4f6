package identity

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const (
	clientCert = "X-Forwarded-Client-Cert"

	clientID = "spiffe://cluster.local/ns/default/sa/client"
	serverID = "spiffe://cluster.local/ns/default/sa/server"
)

func decode[T any](t *testing.T, r io.Reader) (v T) {
	t.Helper()
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// byName: the server's application receives the caller's identity, whatever headers the client
// sends, and the client's sidecar verifies the identity of the server.
func byName(t *testing.T, w *world) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.mesh:"+toldPort+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(clientCert, "By=spiffe://x;URI=spiffe://cluster.local/ns/default/sa/admin")
	resp, err := w.client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	told := decode[request](t, resp.Body).Header.Values(clientCert)
	want := regexp.MustCompile(`^By=` + serverID + `;Hash=[0-9a-f]{64};Subject="[^"]*";URI=` + clientID + `$`)
	if last := told[len(told)-1]; !want.MatchString(last[strings.LastIndex(last, "By="):]) {
		t.Errorf("identity that the application received = %q", told)
	}

	conn, err := w.stranger(t, "8090", &tls.Config{Certificates: []tls.Certificate{w.certified("stranger")}, NextProtos: []string{"istio-http/1.1", "istio"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	id, err := spiffe.LeafID(state.PeerCertificates[0])
	if err != nil || id.String() != serverID {
		t.Errorf("the server is %s: %v", id, err)
	}
	if state.NegotiatedProtocol != "" || state.Version < tls.VersionTLS12 {
		t.Errorf("agreed on %q with TLS %#x", state.NegotiatedProtocol, state.Version)
	}
	if life := time.Until(state.PeerCertificates[0].NotAfter); life > lifetime || life <= 0 {
		t.Errorf("the server's certificate is good for %s", life)
	}
}

// certified makes a certificate of the mesh's authority for an account.
func (w *world) certified(account string) tls.Certificate {
	id := &url.URL{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/" + account}
	leaf := w.signing.Issue(&x509.Certificate{URIs: []*url.URL{id}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	c := leaf.TLS()
	c.Certificate = append(c.Certificate, w.signing.Certificate.Raw)
	return c
}

// stranger connects to the server's pod from a pod without a sidecar, in plain text if config is
// nil.
func (w *world) stranger(t *testing.T, port string, config *tls.Config) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), effectTime)
	defer cancel()
	conn, err := w.ControlPlane.Node.Dial(ctx, "tcp", net.JoinHostPort(podAddress, port))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(effectTime)) // a socket of ours has deadlines
	if config == nil {
		return conn, nil
	}
	config.InsecureSkipVerify = true // the test verifies the identity itself
	c := tls.Client(conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// asked sends a request over a connection, and returns the status of the answer.
func asked(conn net.Conn) (int, error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: server.mesh\r\n\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// strangers: under PERMISSIVE the server answers in the clear and with a certificate of the mesh, under STRICT only with one.
func strangers(t *testing.T, w *world) {
	other := pki.Authority("other").Issue(&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/default/sa/client"}}})
	foreign := w.signing.Issue(&x509.Certificate{URIs: []*url.URL{{Scheme: "spiffe", Host: "elsewhere", Path: "/ns/default/sa/client"}}}).TLS()
	foreign.Certificate = append(foreign.Certificate, w.signing.Certificate.Raw)
	offer := []string{"istio-http/1.1", "istio"}
	for _, c := range []struct {
		name               string
		config             *tls.Config
		permissive, strict bool
	}{
		{"in the clear", nil, true, false},
		{"of the mesh", &tls.Config{Certificates: []tls.Certificate{w.certified("stranger")}, NextProtos: offer}, true, true},
		{"of the mesh, without Istio's ALPN", &tls.Config{Certificates: []tls.Certificate{w.certified("stranger")}, NextProtos: []string{"http/1.1"}}, false, true},
		{"without a certificate", &tls.Config{NextProtos: offer}, false, false},
		{"of another authority, by the same name", &tls.Config{Certificates: []tls.Certificate{other.TLS()}, NextProtos: offer}, false, false},
		{"of another trust domain", &tls.Config{Certificates: []tls.Certificate{foreign}, NextProtos: offer}, false, false},
	} {
		c.config = c.config.Clone()
		for mode, want := range map[string]bool{"PERMISSIVE": c.permissive, "STRICT": c.strict} {
			w.peers(t, mode)
			if got, err := w.answers(t, c.config); got != want {
				t.Errorf("%s, %s: answered %t, want %t (%v)", mode, c.name, got, want, err)
			}
		}
	}
	w.peers(t, "PERMISSIVE")
}

// answers reports whether a client without a sidecar gets an answer. In TLS 1.3 clients see a
// refusal only when they read.
func (w *world) answers(t *testing.T, config *tls.Config) (bool, error) {
	conn, err := w.stranger(t, toldPort, config)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	status, err := asked(conn)
	return err == nil && status == http.StatusOK, err
}

// offers: the ALPN of the client's sidecar distinguishes HTTP requests from other bytes for the
// server, and the client authenticates by its certificate.
func offers(t *testing.T, w *world) {
	for port, want := range map[string][]string{
		"8480": {"istio-http/1.1", "istio", "http/1.1"},
		"9400": {"istio"},
	} {
		hello := w.spied(t, port)
		if diff := cmp.Diff(want, hello.offered); diff != "" {
			t.Errorf("at port %s is offered (-want +got):\n%s", port, diff)
		}
		if id, err := spiffe.LeafID(hello.peer); err != nil || id.String() != clientID {
			t.Errorf("at port %s calls %s: %v", port, id, err)
		}
		if want := "outbound_." + port + "_._.spy.mesh"; hello.name != want {
			t.Errorf("at port %s the server is called %q, want %q", port, hello.name, want)
		}
	}
}

// hello is the ClientHello and certificate that the spy receives.
type hello struct {
	name    string
	offered []string
	peer    *x509.Certificate
}

// spied calls the spy from the client, and returns what the spy received.
func (w *world) spied(t *testing.T, port string) hello {
	t.Helper()
	l, err := w.ControlPlane.Node.Listen("tcp", "10.66.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := make(chan hello, 1)
	config := &tls.Config{Certificates: []tls.Certificate{w.certified("spy")}, ClientAuth: tls.RequireAnyClientCert}
	go func() { told <- spy(l, config) }()
	conn, err := w.dial(spyAddress)(t.Context(), "tcp", "spy.mesh:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: spy.mesh\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-told:
		if h.peer == nil {
			t.Fatal("the spy was not called with mutual TLS")
		}
		return h
	case <-time.After(effectTime):
		t.Fatal("the spy was not called")
		return hello{}
	}
}

// spy takes one connection.
func spy(l net.Listener, config *tls.Config) hello {
	var h hello
	config.GetConfigForClient = func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		h.name, h.offered = i.ServerName, slices.Clone(i.SupportedProtos)
		return nil, nil
	}
	conn, err := l.Accept()
	if errors.Is(err, net.ErrClosed) {
		return h
	}
	c := tls.Server(conn, config)
	defer c.Close()
	if c.Handshake() == nil {
		h.peer = c.ConnectionState().PeerCertificates[0]
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	return h
}
