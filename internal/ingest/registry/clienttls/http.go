package clienttls

import (
	"crypto/tls"
	"errors"
	"fmt"
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
// are noise.
func WithoutURL(server string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s: %w", server, err)
}
