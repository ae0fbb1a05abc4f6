package snapshot

import (
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Names of entries of ProxyConfig.proxyMetadata that affect listeners. An agent passes them to its
// proxy's metadata, which overrides the mesh's entries.
const (
	idleTimeoutEntry   = "ISTIO_META_IDLE_TIMEOUT"
	httpProxyPortEntry = "ISTIO_META_HTTP_PROXY_PORT"
	http10Entry        = "ISTIO_META_HTTP10"

	inboundExactBalanceEntry  = "ISTIO_META_INBOUND_LISTENER_EXACT_BALANCE"
	outboundExactBalanceEntry = "ISTIO_META_OUTBOUND_LISTENER_EXACT_BALANCE"
)

// IdleTimeout returns the time after which proxies close idle connections
// (ISTIO_META_IDLE_TIMEOUT); 0 means never. ok is false if it is unset, negative or malformed. Then
// Envoy's defaults apply.
func (s *Settings) IdleTimeout() (timeout time.Duration, ok bool) {
	return parseIdleTimeout(s.Mesh.GetDefaultConfig().GetProxyMetadata()[idleTimeoutEntry])
}

// HTTPProxyPort returns the port on which proxies serve applications as an HTTP proxy:
// ISTIO_META_HTTP_PROXY_PORT, or MeshConfig.proxyHttpPort if that is unset or malformed. 0 means
// that proxies have none.
func (s *Settings) HTTPProxyPort() uint32 {
	if port, ok := parsePort(s.Mesh.GetDefaultConfig().GetProxyMetadata()[httpProxyPortEntry]); ok {
		return port
	}
	return uint32(max(s.Mesh.GetProxyHttpPort(), 0))
}

// ExactBalance reports whether the connections of inbound and of outbound listeners are spread
// evenly over the workers of Envoy (ISTIO_META_INBOUND_LISTENER_EXACT_BALANCE,
// ISTIO_META_OUTBOUND_LISTENER_EXACT_BALANCE). Malformed values are false.
func (s *Settings) ExactBalance() (inbound, outbound bool) {
	all := s.Mesh.GetDefaultConfig().GetProxyMetadata()
	return normalizeBool(all[inboundExactBalanceEntry]) != "", normalizeBool(all[outboundExactBalanceEntry]) != ""
}

// AcceptsHTTP10 reports whether listeners accept HTTP/1.0: with PILOT_HTTP10 (Features.HTTP10), or
// if ISTIO_META_HTTP10 is "1".
func (s *Settings) AcceptsHTTP10() bool {
	return s.Features.HTTP10 || normalizeHTTP10(s.Mesh.GetDefaultConfig().GetProxyMetadata()[http10Entry]) != ""
}

// ProxyMetadataFor returns the values in a proxy's metadata m as entries of
// ProxyConfig.proxyMetadata: idle timeout, HTTP proxy port, HTTP/1.0, and exact balance inbound and
// outbound. Malformed values in m are treated as unset. Only entries that differ in effect from the
// mesh's are returned, "" for an unset value; it returns nil if none differs.
func (s *Settings) ProxyMetadataFor(m *mesh.NodeMetadata) map[string]string {
	var entries map[string]string
	set := func(name, own, defaults string) {
		if own == defaults {
			return
		}
		if entries == nil {
			entries = map[string]string{}
		}
		entries[name] = own
	}
	all := s.Mesh.GetDefaultConfig().GetProxyMetadata()
	set(idleTimeoutEntry, normalizeIdleTimeout(m.IdleTimeout), normalizeIdleTimeout(all[idleTimeoutEntry]))
	set(httpProxyPortEntry, normalizePort(m.HTTPProxyPort), normalizePort(all[httpProxyPortEntry]))
	set(http10Entry, normalizeHTTP10(m.HTTP10), normalizeHTTP10(all[http10Entry]))
	set(inboundExactBalanceEntry, boolText(m.InboundExactBalance), normalizeBool(all[inboundExactBalanceEntry]))
	set(outboundExactBalanceEntry, boolText(m.OutboundExactBalance), normalizeBool(all[outboundExactBalanceEntry]))
	return entries
}

// parseIdleTimeout parses a duration such as "300s". ok is false if it is malformed or negative. An
// empty text is malformed.
func parseIdleTimeout(text string) (d time.Duration, ok bool) {
	if text == "" {
		return 0, false // an error would be allocated for each proxy
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// normalizeIdleTimeout returns a duration in a unique form, or "" if it is malformed or negative.
func normalizeIdleTimeout(text string) string {
	if d, ok := parseIdleTimeout(text); ok {
		return d.String()
	}
	return ""
}

// parsePort parses a port or 0. ok is false for any other text.
func parsePort(text string) (port uint32, ok bool) {
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint32(n), err == nil
}

// normalizeBool returns "true" for a text that strconv.ParseBool parses as true, and "" for any
// other.
func normalizeBool(text string) string {
	if text == "" {
		return "" // an error would be allocated for each proxy
	}
	v, err := strconv.ParseBool(text)
	return boolText(mesh.StringBool(err == nil && v))
}

// normalizeHTTP10 returns "1" for "1", and "" for all other values of HTTP10.
func normalizeHTTP10(text string) string {
	if text == "1" {
		return text
	}
	return ""
}

// boolText returns "true" or "".
func boolText(v mesh.StringBool) string {
	if v {
		return "true"
	}
	return ""
}

// normalizePort returns a port, or 0, as a decimal number without leading zeros. It returns "" for
// any other text, such as a name, a sign or a number above 65535.
func normalizePort(text string) string {
	if port, ok := parsePort(text); ok {
		return strconv.FormatUint(uint64(port), 10)
	}
	return ""
}
