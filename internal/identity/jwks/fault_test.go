package jwks

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/jwks/keyset"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestFaults: the text names the kind of failure, and nothing of the response or the address.
func TestFaults(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write([]byte(strings.Repeat("s3cr3t", 1<<20))) // the test checks what was received
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/created":
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"token": "s3cr3t"}`))
		case "/forbidden":
			http.Error(w, "s3cr3t", http.StatusForbidden)
		default:
			_, _ = w.Write([]byte(`{"token": "s3cr3t"}`))
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	secure.Config.ErrorLog = nil
	for _, tt := range []struct {
		name, url, want string
		loopback        bool
	}{
		{"a secret document", plain.URL, "the document is not a JSON Web Key Set", true},
		{"a secret document with status 201", plain.URL + "/created", "the document is not a JSON Web Key Set", true},
		{"a long document", plain.URL + "/long", refused, true},
		{"an error status", plain.URL + "/forbidden", "the server returned HTTP status 403", true},
		{"this machine", plain.URL, refused, false},
		{"a redirect to a cloud's metadata server", plain.URL + "/away", refused, true},
		{"a cloud's address", "http://169.254.169.254/latest", refused, true},
		{"an authority that is not known", secure.URL, "the server's certificate is not trusted", true},
		{"no TLS", "https" + strings.TrimPrefix(plain.URL, "http"), refused, true},
		{"another protocol", "file:///etc/passwd", refused, true},
	} {
		client := fetch.NewClient(fetch.Options{Timeout: 5 * time.Second, Loopback: tt.loopback})
		r := documentReader{client: client, parse: keyset.ParsePublished}
		keys, err := r.readKeys(t.Context(), mesh.KeySource{URI: tt.url})
		if got := faultText(err); err == nil || keys != "" || got != tt.want {
			t.Errorf("%s: %q (%v); want %q", tt.name, got, err, tt.want)
		}
		client.CloseIdleConnections()
	}
	for want, err := range map[string]error{
		"DNS lookup of the server failed":         &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "a"}},
		"the server's certificate is not trusted": &net.OpError{Op: "remote error", Err: x509.HostnameError{Certificate: new(x509.Certificate)}},
		"timeout: the server did not respond":     &net.OpError{Op: "read", Err: timedOut{}},
		refused:                                   errors.New("anything"),
	} {
		if got := faultText(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

type timedOut struct{}

func (timedOut) Error() string   { return "i/o timeout" }
func (timedOut) Timeout() bool   { return true }
func (timedOut) Temporary() bool { return true }
