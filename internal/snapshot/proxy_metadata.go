package snapshot

import (
	"strconv"
	"time"
)

// Names of entries of ProxyConfig.proxyMetadata that affect listeners. An agent passes them to its
// proxy's metadata, which overrides the mesh's entries.
const (
	idleTimeoutEntry   = "ISTIO_META_IDLE_TIMEOUT"
	httpProxyPortEntry = "ISTIO_META_HTTP_PROXY_PORT"
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

// ProxyMetadataFor returns the entries of ProxyConfig.proxyMetadata with which
// [Settings.IdleTimeout] and [Settings.HTTPProxyPort] return a proxy's own values. idle and port
// are the values in its metadata, "" if unset; malformed ones are treated as unset. Only entries
// that differ in effect from the mesh's are returned, "" for an unset value; it returns nil if none
// differs.
func (s *Settings) ProxyMetadataFor(idle, port string) map[string]string {
	var entries map[string]string
	set := func(name, own, mesh string) {
		if own == mesh {
			return
		}
		if entries == nil {
			entries = map[string]string{}
		}
		entries[name] = own
	}
	all := s.Mesh.GetDefaultConfig().GetProxyMetadata()
	set(idleTimeoutEntry, normalizeIdleTimeout(idle), normalizeIdleTimeout(all[idleTimeoutEntry]))
	set(httpProxyPortEntry, normalizePort(port), normalizePort(all[httpProxyPortEntry]))
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

// normalizePort returns a port, or 0, as a decimal number without leading zeros. It returns "" for
// any other text, such as a name, a sign or a number above 65535.
func normalizePort(text string) string {
	if port, ok := parsePort(text); ok {
		return strconv.FormatUint(uint64(port), 10)
	}
	return ""
}
