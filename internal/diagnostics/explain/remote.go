package explain

import (
	"net/netip"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// remoteAddress returns the address of the original client as far as the proxy trusts
// x-forwarded-for. It skips the entries of trusted proxies from the right; with use_remote_address,
// the connection is the last of the xff_num_trusted_hops. It returns the address of the connection
// without a usable entry, and always with use_remote_address and no trusted hops.
func (x *exchange) remoteAddress() netip.Addr {
	skip := int(x.manager.GetXffNumTrustedHops())
	own := x.manager.GetUseRemoteAddress().GetValue()
	if own && skip == 0 {
		return x.call.From.Addr()
	}
	if own {
		skip-- // the connection itself has the address of the last hop
	}
	if a, ok := forwardedFor(x.request, skip); ok {
		return a
	}
	return x.call.From.Addr()
}

// forwardedFor returns the address in x-forwarded-for after skipping the last skip addresses. The
// second result is false if there is none, or it is malformed.
func forwardedFor(r *Request, skip int) (netip.Addr, bool) {
	text, there := r.headerValue("x-forwarded-for")
	parts := strings.Split(text, ",")
	if !there || skip >= len(parts) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(strings.TrimSpace(parts[len(parts)-1-skip]))
	return a.Unmap(), err == nil
}

// setOriginalAddress sets x.remote to the original address of the client, and adds a step if it
// differs from the address of the connection. An original IP detection extension only adds a step,
// because it is not supported.
func (x *exchange) setOriginalAddress(m *hcmv3.HttpConnectionManager) {
	if len(m.GetOriginalIpDetectionExtensions()) > 0 {
		x.addNote(
			StageUnsupported,
			"http_connection_manager",
			"the detection of the original client address is not supported",
		)
	}
	x.remote = x.remoteAddress()
	if x.remote != x.call.From.Addr() {
		x.addNote(
			StageFilter,
			"http_connection_manager",
			"uses %s as the original client address, from x-forwarded-for",
			x.remote,
		)
	}
}
