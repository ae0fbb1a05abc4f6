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

// NewTransport returns a transport for a registry's HTTP client with the TLS settings, which may
// have a client certificate that changes. If they are nil, Go's defaults apply. It uses the proxy
// that the environment names, and HTTP/2 with TLS. Up to MaxConcurrent requests at a time reuse
// their connections.
func NewTransport(security *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: security, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: MaxConcurrent,
	}
}

// MaxConcurrent is how many requests a registry's HTTP client should send to a server at one time.
const MaxConcurrent = 8

// WithoutURL returns the error of a request as "SERVER: CAUSE". A *url.Error in err is replaced by
// its cause, because the path and query of its URL are noise. The cause has no client's port
// (WithoutClientPort).
func WithoutURL(server string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s: %w", server, WithoutClientPort(err))
}

// WithoutClientPort returns a *net.OpError in err, if it has both addresses, as "OP SERVER: CAUSE".
// The client's address is left out, because its port differs at each attempt and would make each
// error another Problem. It returns other errors unchanged.
func WithoutClientPort(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Source == nil || op.Addr == nil {
		return err
	}
	return fmt.Errorf("%s %s: %w", op.Op, op.Addr, op.Err)
}
