package listener

import (
	"fmt"
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// connectionSettings returns a copy of the limits and timeouts of downstream connections
// (ProxyConfig.connectionSettings), or nil if that is not set. Values that Envoy would refuse are
// unset; connectionFaults reports them. If gateway is set and the profile is EDGE, its defaults
// fill unset values.
func connectionSettings(m *meshconfig.MeshConfig, gateway bool) *meshconfig.ProxyConfig_ConnectionSettings {
	in := m.GetDefaultConfig().GetConnectionSettings()
	if in == nil {
		return nil
	}
	out := proto.CloneOf(in)
	for _, l := range connectionLimits(out) {
		if *l.value != nil && (l.fault() != "") {
			*l.value = nil
		}
	}
	for _, t := range connectionTimeouts(out) {
		if *t.value != nil && (*t.value).AsDuration() < 0 {
			*t.value = nil
		}
	}
	if gateway && in.GetProfile() == meshconfig.ProxyConfig_ConnectionSettings_EDGE {
		proto.Merge(out, onlyMissing(out, edgeDefaults()))
	}
	return out
}

// edgeDefaults returns the settings of the profile EDGE, as its API documents them.
func edgeDefaults() *meshconfig.ProxyConfig_ConnectionSettings {
	const kibibyte = 1 << 10
	const reject = meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST
	return &meshconfig.ProxyConfig_ConnectionSettings{
		ListenerPerConnectionBufferLimitBytes: wrapperspb.Int32(32 * kibibyte),
		HttpIdleTimeout:                       durationpb.New(time.Hour),
		HttpRequestTimeout:                    durationpb.New(5 * time.Minute),
		HttpRequestHeadersTimeout:             durationpb.New(time.Minute),
		HttpStreamIdleTimeout:                 durationpb.New(5 * time.Minute),
		HttpMaxConcurrentStreams:              wrapperspb.Int32(100),
		Http2InitialStreamWindowSize:          wrapperspb.Int32(64 * kibibyte),
		Http2InitialConnectionWindowSize:      wrapperspb.Int32(kibibyte * kibibyte),
		HttpHeadersWithUnderscoresAction:      reject,
		HttpMergeSlashes:                      wrapperspb.Bool(true),
		HttpPathWithEscapedSlashesAction:      meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT,
	}
}

// onlyMissing clears in defaults, in place, the fields that are set in set, and returns defaults.
func onlyMissing(set, defaults *meshconfig.ProxyConfig_ConnectionSettings) *meshconfig.ProxyConfig_ConnectionSettings {
	fields := set.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); set.ProtoReflect().Has(f) {
			defaults.ProtoReflect().Clear(f)
		}
	}
	return defaults
}

// connectionLimit is a number of the settings, with the range that Envoy accepts.
type connectionLimit struct {
	field       string
	value       **wrapperspb.Int32Value
	least, most int32
}

// fault returns why Envoy would refuse the value, or "" if it is in the range. A nil value is 0.
func (l connectionLimit) fault() string {
	if n := (*l.value).GetValue(); n < l.least || n > l.most {
		return fmt.Sprintf("%d is not in the range %d..%d, and is ignored", n, l.least, l.most)
	}
	return ""
}

// connectionLimits returns the number fields of s, each with its JSON name, a pointer to the field,
// which may be unset, and the range of valid values.
func connectionLimits(s *meshconfig.ProxyConfig_ConnectionSettings) []connectionLimit {
	const window = 1<<16 - 1 // RFC 9113, section 6.9.2
	return []connectionLimit{
		{"listenerPerConnectionBufferLimitBytes", &s.ListenerPerConnectionBufferLimitBytes, 0, math.MaxInt32},
		{"clusterPerConnectionBufferLimitBytes", &s.ClusterPerConnectionBufferLimitBytes, 0, math.MaxInt32},
		{"httpMaxConcurrentStreams", &s.HttpMaxConcurrentStreams, 1, math.MaxInt32},
		{"http2InitialStreamWindowSize", &s.Http2InitialStreamWindowSize, window, math.MaxInt32},
		{"http2InitialConnectionWindowSize", &s.Http2InitialConnectionWindowSize, window, math.MaxInt32},
	}
}

type connectionTimeout struct {
	field string
	value **durationpb.Duration
}

// connectionTimeouts returns the duration fields of s, each with its JSON name and a pointer to the
// field, which may be unset.
func connectionTimeouts(s *meshconfig.ProxyConfig_ConnectionSettings) []connectionTimeout {
	return []connectionTimeout{
		{"httpIdleTimeout", &s.HttpIdleTimeout},
		{"httpMaxConnectionDuration", &s.HttpMaxConnectionDuration},
		{"httpDrainTimeout", &s.HttpDrainTimeout},
		{"httpRequestTimeout", &s.HttpRequestTimeout},
		{"httpRequestHeadersTimeout", &s.HttpRequestHeadersTimeout},
		{"httpStreamIdleTimeout", &s.HttpStreamIdleTimeout},
		{"httpMaxStreamDuration", &s.HttpMaxStreamDuration},
	}
}

// connectionFaults returns a Warning, without Key and Origin, for each connection setting that is
// ignored because Envoy would refuse it: a number out of its range, or a negative timeout. It
// returns nil without settings.
func connectionFaults(m *meshconfig.MeshConfig) []config.Problem {
	s := m.GetDefaultConfig().GetConnectionSettings()
	if s == nil {
		return nil
	}
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(
			found,
			config.Problem{
				Code:     code.FieldWithoutEffect,
				Field:    "defaultConfig.connectionSettings." + field,
				Reason:   reason,
				Severity: config.Warning,
			},
		)
	}
	for _, l := range connectionLimits(s) {
		if *l.value != nil && l.fault() != "" {
			warn(l.field, l.fault())
		}
	}
	for _, t := range connectionTimeouts(s) {
		if *t.value != nil && (*t.value).AsDuration() < 0 {
			warn(t.field, "must not be negative, and is ignored")
		}
	}
	return found
}

// applyConnectionLimit sets the buffer limit of the connections of a gateway's listener, if one is
// configured.
func (b builder) applyConnectionLimit(l *listenerv3.Listener) {
	if !b.edge {
		return
	}
	if n := b.connectionSettings().GetListenerPerConnectionBufferLimitBytes(); n != nil {
		l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(n.GetValue()))
	}
}

// applyConnectionSettings sets the configured limits and timeouts of a connection manager. Unset
// ones have Envoy's defaults or, for idle streams and paths, keep the value in m. Without settings,
// it sets only the idle timeout of the proxy's metadata, which httpIdleTimeout overrides. Path
// settings here override the mesh's (MeshConfig.pathNormalization), so it must be called after
// normalizePath.
func (b builder) applyConnectionSettings(m *hcmv3.HttpConnectionManager) {
	if b.idleTimeout != nil {
		commonOptions(m).IdleTimeout = b.idleTimeout
	}
	s := b.connectionSettings()
	if s == nil {
		return
	}
	if s.HttpIdleTimeout != nil || s.HttpMaxConnectionDuration != nil || s.HttpMaxStreamDuration != nil {
		common := commonOptions(m)
		common.MaxConnectionDuration, common.MaxStreamDuration = s.HttpMaxConnectionDuration, s.HttpMaxStreamDuration
		if s.HttpIdleTimeout != nil {
			common.IdleTimeout = s.HttpIdleTimeout
		}
	}
	m.DrainTimeout = s.HttpDrainTimeout
	m.RequestTimeout = s.HttpRequestTimeout
	m.RequestHeadersTimeout = s.HttpRequestHeadersTimeout
	if s.HttpStreamIdleTimeout != nil {
		m.StreamIdleTimeout = s.HttpStreamIdleTimeout
	}
	if s.HttpMaxConcurrentStreams != nil || s.Http2InitialStreamWindowSize != nil ||
		s.Http2InitialConnectionWindowSize != nil {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        toUInt32(s.HttpMaxConcurrentStreams),
			InitialStreamWindowSize:     toUInt32(s.Http2InitialStreamWindowSize),
			InitialConnectionWindowSize: toUInt32(s.Http2InitialConnectionWindowSize),
		}
	}
	const allow = meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_ALLOW
	if a := s.GetHttpHeadersWithUnderscoresAction(); a > allow {
		// Envoy has the same three values in the same order, without "unspecified".
		commonOptions(m).HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_HeadersWithUnderscoresAction(a - 1)
	}
	if s.HttpMergeSlashes != nil {
		m.MergeSlashes = s.HttpMergeSlashes.GetValue()
	}
	// Envoy's enumeration has the same numbers.
	if a := s.GetHttpPathWithEscapedSlashesAction(); a != 0 {
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction(a)
	}
}

// commonOptions returns the common HTTP options of m, which it creates if needed.
func commonOptions(m *hcmv3.HttpConnectionManager) *corev3.HttpProtocolOptions {
	if m.CommonHttpProtocolOptions == nil {
		m.CommonHttpProtocolOptions = new(corev3.HttpProtocolOptions)
	}
	return m.CommonHttpProtocolOptions
}

// toUInt32 converts a wrapped number, which must not be negative; nil stays nil.
func toUInt32(n *wrapperspb.Int32Value) *wrapperspb.UInt32Value {
	if n == nil {
		return nil
	}
	return wrapperspb.UInt32(uint32(n.GetValue()))
}

// connectionSettings returns the settings for the builder's listener, of a gateway or a sidecar;
// nil without settings.
func (b builder) connectionSettings() *meshconfig.ProxyConfig_ConnectionSettings {
	if b.edge {
		return b.gatewayConnections
	}
	return b.sidecarConnections
}
