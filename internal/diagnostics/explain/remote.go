package explain

import (
	"net/netip"
	"strings"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// remoteAddress gives the address of the first caller as far as the proxy believes what was said of it: of x-forwarded-for it skips
// those that trusted proxies have added, from the right (HttpConnectionManager.use_remote_address, xff_num_trusted_hops).
func (x *exchange) remoteAddress() netip.Addr {
	skip := int(x.manager.GetXffNumTrustedHops())
	own := x.manager.GetUseRemoteAddress().GetValue()
	if own && skip == 0 {
		return x.call.From.Addr()
	}
	if own {
		skip-- // the last one is this proxy's neighbour, whom it sees itself
	}
	if a, ok := forwardedFor(x.request, skip); ok {
		return a
	}
	return x.call.From.Addr()
}

func forwardedFor(r *Request, skip int) (netip.Addr, bool) {
	text, there := r.value("x-forwarded-for")
	parts := strings.Split(text, ",")
	if !there || skip >= len(parts) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(strings.TrimSpace(parts[len(parts)-1-skip]))
	return a.Unmap(), err == nil
}

// originalAddress notes it, where it is not that of the connection.
func (x *exchange) originalAddress(m *hcmv3.HttpConnectionManager) {
	if len(m.GetOriginalIpDetectionExtensions()) > 0 {
		x.note(StageUnsupported, "http_connection_manager", "how it finds out the first caller's address is not followed")
	}
	x.remote = x.remoteAddress()
	if x.remote != x.call.From.Addr() {
		x.note(StageFilter, "http_connection_manager", "takes %s for the first caller, by x-forwarded-for", x.remote)
	}
}
