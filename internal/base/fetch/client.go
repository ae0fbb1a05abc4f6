package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Options bound what is fetched. Zero values are defaults.
type Options struct {
	// Timeout bounds all of it, from the name to the last byte; 0: five seconds.
	Timeout time.Duration
	// MaxBytes bounds a body; 0: a megabyte.
	MaxBytes int64
	// Loopback lets this machine be reached: where an operator has written the address, and not a tenant.
	Loopback bool
	// Blocked are networks that an operator lets nobody reach, beside those that nobody may.
	Blocked []netip.Prefix
	// Roots are the certificates to trust; nil: the system's.
	Roots *x509.CertPool
	// Unverified takes any certificate: who asks for it has been told.
	Unverified bool
}

const (
	defaultTimeout  = 5 * time.Second
	defaultMaxBytes = 1 << 20
	maxRedirects    = 3
)

var errTooLong = errors.New("the document is too long")

// NewClient makes a client. It uses no proxy: what stands between would decide what is reached.
func NewClient(o Options) *http.Client {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	dialer := &net.Dialer{Timeout: o.Timeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return o.Check(address)
	}}
	return &http.Client{
		Timeout: o.Timeout,
		Transport: bounded{&http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: o.Roots, InsecureSkipVerify: o.Unverified, //nolint:gosec // an operator's word
			},
			TLSHandshakeTimeout: o.Timeout, ResponseHeaderTimeout: o.Timeout, MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: o.Timeout, ForceAttemptHTTP2: true,
			DisableCompression: true, // a bound of what comes in is one of what comes out
		}, o.MaxBytes},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return errors.New("too many redirects")
			case via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https":
				return errors.New("a redirect from https to " + r.URL.Scheme)
			}
			return nil
		},
	}
}

// Check returns an error if an address, an IP with a port, must not be connected to. It is for the Control function of a dialer, which
// runs after names have been resolved.
func (o Options) Check(address string) error {
	p, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: %w", address, err)
	}
	if a := p.Addr(); !reachable(a) && !(o.Loopback && a.Unmap().IsLoopback()) || o.blocks(a) {
		return fmt.Errorf("dial %s: nothing is fetched from there", a)
	}
	return nil
}

func (o Options) blocks(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if embedded, ok := inside(a); ok && o.blocks(embedded) {
		return true
	}
	return slices.ContainsFunc(o.Blocked, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reachable says whether documents may be fetched from an address. Private networks are among those that may: that is where
// issuers within a company are.
func reachable(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if embedded, ok := inside(a); ok {
		return reachable(embedded)
	}
	for _, p := range forbidden() {
		if p.Contains(a) {
			return false
		}
	}
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// forbidden are networks besides those that netip has names for: of this host, of nobody, and where clouds tell machines their secrets.
func forbidden() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("fd20:ce::254/128"),
	}
}

// inside gives the IPv4 address that an IPv6 one stands for: of NAT64 (RFC 6052), 6to4 (RFC 3056), or compatible (RFC 4291).
func inside(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case a.Is4():
		return a, false
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a), netip.MustParsePrefix("64:ff9b:1::/48").Contains(a),
		netip.MustParsePrefix("::/96").Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return a, false
}

// bounded gives bodies that end in an error when they are too long.
type bounded struct {
	http.RoundTripper
	most int64
}

// RoundTrip bounds the body of the response.
func (t bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &body{answer.Body, t.most}
	}
	return answer, err
}

type body struct {
	io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	return n, err
}
