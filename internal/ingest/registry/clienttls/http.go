package clienttls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// NewTransport returns a transport for a registry's HTTP client with the TLS settings, which may have a
// client certificate that changes. It uses the proxy that the environment names, and HTTP/2 with TLS. Up to
// MaxConcurrent requests at a time reuse their connections.
func NewTransport(security *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: security, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: MaxConcurrent,
	}
}

// MaxConcurrent is how many requests a registry's HTTP client should send to a server at one time.
const MaxConcurrent = 8

// WithoutURL returns the error of a request with the server instead of the whole URL, whose path and query
// are noise, and WithoutClientPort.
func WithoutURL(server string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s: %w", server, WithoutClientPort(err))
}

// WithoutClientPort returns the error of a connection without the client's address, whose port differs at each
// attempt: each of them would be another problem. It returns other errors unchanged.
func WithoutClientPort(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Source == nil || op.Addr == nil {
		return err
	}
	return fmt.Errorf("%s %s: %w", op.Op, op.Addr, op.Err)
}
