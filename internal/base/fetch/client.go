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

// Options limit fetches.
type Options struct {
	// Timeout bounds the whole fetch, from name resolution to the last byte (default 5 s).
	Timeout time.Duration
	// MaxBytes bounds the size of a response body (default 1 MiB).
	MaxBytes int64
	// Loopback allows connections to this host (default false). Set it only for addresses written
	// by an operator, not by a tenant.
	Loopback bool
	// Blocked are additional networks that must not be connected to, besides the forbidden
	// networks.
	Blocked []netip.Prefix
	// Roots are the trusted root certificates. If nil, the system's are used.
	Roots *x509.CertPool
	// AcceptAnyCertificate accepts any server certificate (default false).
	AcceptAnyCertificate bool
}

const (
	defaultTimeout  = 5 * time.Second
	defaultMaxBytes = 1 << 20
	maxRedirects    = 3
)

var errTooLarge = errors.New("response body exceeds the size limit")

// NewClient returns an HTTP client with the limits in o, by default 5 s and 1 MiB. It connects only
// to addresses that o.Check allows. It uses no proxy, because the proxy would decide which
// addresses are reached. Redirects are followed three times at most, and never from https to http.
func NewClient(o Options) *http.Client {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	dialer := &net.Dialer{
		Timeout: o.Timeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return o.Check(address)
		},
	}
	return &http.Client{
		Timeout: o.Timeout,
		Transport: limitedTransport{&http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: o.Roots,
				InsecureSkipVerify: o.AcceptAnyCertificate, //nolint:gosec // an operator's explicit choice
			},
			TLSHandshakeTimeout: o.Timeout, ResponseHeaderTimeout: o.Timeout, MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: o.Timeout, ForceAttemptHTTP2: true,
			DisableCompression: true, // so that MaxBytes bounds the memory too
		}, o.MaxBytes},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return errors.New("too many redirects")
			case via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https":
				return errors.New("redirect from https to " + r.URL.Scheme)
			}
			return nil
		},
	}
}

// Check returns an error if connecting to address, an IP with a port, is forbidden, or if address
// has another form. Forbidden are loopback addresses unless o.Loopback is set, the other addresses
// that isReachable excludes, and o.Blocked. It is for the Control function of a dialer, which is
// called after name resolution.
func (o Options) Check(address string) error {
	p, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: %w", address, err)
	}
	if a := p.Addr(); !isReachable(a) && !(o.Loopback && a.Unmap().IsLoopback()) || o.isBlocked(a) {
		return fmt.Errorf("dial %s: fetching from this address is forbidden", a)
	}
	return nil
}

// isBlocked reports whether one of o.Blocked contains the address, or the IPv4 address embedded in
// it. The zone of the address is ignored.
func (o Options) isBlocked(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if embedded, ok := embeddedIPv4(a); ok && o.isBlocked(embedded) {
		return true
	}
	return slices.ContainsFunc(o.Blocked, func(p netip.Prefix) bool { return p.Contains(a) })
}

// isReachable reports whether documents may be fetched from an address, by default: it is no
// loopback, multicast, link-local or otherwise forbidden address. Private networks are allowed,
// because issuers within a company are there. With an embedded IPv4 address only that one counts.
func isReachable(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if embedded, ok := embeddedIPv4(a); ok {
		return isReachable(embedded)
	}
	for _, p := range forbiddenNetworks() {
		if p.Contains(a) {
			return false
		}
	}
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
}

// forbiddenNetworks returns the networks that isReachable forbids besides loopback, unspecified,
// multicast and link-local addresses: this host, reserved and site-local networks, and metadata
// servers of clouds. Other private networks are allowed.
func forbiddenNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("fd00:ec2::/32"),
		netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("fd20:ce::254/128"),
	}
}

// embeddedIPv4 returns the IPv4 address embedded in an IPv6 address by NAT64 (RFC 6052), 6to4 (RFC
// 3056) or as IPv4-compatible (RFC 4291). It returns a and false if there is none, also if a itself
// is an IPv4 address.
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
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

// limitedTransport limits the size of response bodies. Reading beyond the limit fails with
// errTooLarge.
type limitedTransport struct {
	http.RoundTripper
	maxBytes int64
}

// RoundTrip sends a request. Reading more than t.maxBytes bytes of the response's body fails with
// errTooLarge. An error of the transport is returned unchanged.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &limitedBody{answer.Body, t.maxBytes}
	}
	return answer, err
}

// limitedBody fails with errTooLarge once more than left bytes were read.
type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read reads from the body. It returns errTooLarge once the body has more bytes than the limit.
// That Read may return bytes, too.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}
