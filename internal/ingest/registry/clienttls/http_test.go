package clienttls_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

func TestErrorsWithoutClientPort(t *testing.T) {
	client, server := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40000}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: client, Addr: server, Err: syscall.ECONNRESET}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: server, Err: syscall.ECONNREFUSED}
	for want, err := range map[string]error{
		"http://a: read 127.0.0.1:80: connection reset by peer": &url.Error{Op: "Get", URL: "http://a/x?y", Err: reset},
		"http://a: dial tcp 127.0.0.1:80: connection refused":   &url.Error{Op: "Get", URL: "http://a/x?y", Err: refused},
		"http://a: EOF": io.EOF,
	} {
		if got := clienttls.WithoutURL("http://a", err); got.Error() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := clienttls.WithoutClientPort(reset); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v does not wrap its cause", err)
	}
}
