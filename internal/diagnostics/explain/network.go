package explain

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// transparentNetworkFilter reports whether network filters of a kind (see filterKind) are skipped
// without a step, because they only observe or count connections.
func transparentNetworkFilter(kind string) bool {
	switch kind {
	case "mongo_proxy",
		"mysql_proxy",
		"postgres_proxy",
		"zookeeper_proxy",
		"kafka_broker",
		"metadata_exchange",
		"connection_limit":
		return true
	}
	return false
}

// runNetworkFilters runs the network filters of a chain, in their order, and returns the endings of
// the connection. The TCP proxy or the connection manager ends it; a chain without either closes
// the connection. A filter whose configuration cannot be decoded is unsupported and ends the call,
// unless it is transparent; other unsupported filters add a step and are skipped. Filters of
// authorization may end the call, too.
func (w *walk) runNetworkFilters(chain *listenerv3.FilterChain) []Ending {
	for _, f := range chain.GetFilters() {
		packed, from, end := w.extensionConfig(f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		if end != nil {
			return end
		}
		if f.GetConfigDiscovery() != nil {
			w.addStep(
				Step{Stage: StageFilter, Resource: f.GetName(), Decided: "received over ECDS", By: w.fewObjects(from)},
			)
		}
		message, err := packed.UnmarshalNew()
		if err != nil {
			if transparentNetworkFilter(filterKind(f.GetName())) {
				continue
			}
			return w.endUnsupported(f.GetName(), "its configuration %s is not known here", packed.GetTypeUrl())
		}
		switch m := message.(type) {
		case *tcpv3.TcpProxy:
			w.from = from
			return w.tcpProxy(m)
		case *hcmv3.HttpConnectionManager:
			w.from = from
			return w.handleHTTP(m)
		case *networkstatev3.Config:
			w.known = w.known || setsDestination(m)
			continue
		case *snidfpv3.FilterConfig:
			w.recordDynamicServerName(m)
			continue
		case *tcprbacv3.RBAC:
			if end := w.connectionAccess(f.GetName(), m); end != nil {
				return end
			}
			continue
		case *tcpauthzv3.ExtAuthz:
			if end := w.connectionAuthorizer(f.GetName(), m); end != nil {
				return end
			}
			continue
		}
		if !transparentNetworkFilter(filterKind(f.GetName())) {
			w.addNote(
				StageUnsupported,
				f.GetName(),
				"this network filter is not supported: it may change or close the connection",
			)
		}
	}
	w.addNote(StageFilterChain, chain.GetName(), "has no terminal filter, so the connection is closed")
	return singleEnding(Closed, "the filter chain has no terminal filter")
}

// setsDestination reports whether a filter uses the connection's local address as its original
// destination. Only values that are set on new connections count.
func setsDestination(m *networkstatev3.Config) bool {
	return slices.ContainsFunc(m.GetOnNewConnection(), func(v *statev3.FilterStateValue) bool {
		return v.GetObjectKey() == "envoy.network.transport_socket.original_dst_address" &&
			v.GetFormatString().GetTextFormatSource().GetInlineString() == "%DOWNSTREAM_LOCAL_ADDRESS%"
	})
}

// extensionConfig returns a filter's configuration and source objects: own, or the received one if
// the filter uses ECDS (discovery is not nil). If none was received, it returns the default
// configuration. Without a default it adds a step and returns a Refused ending. An error of
// decoding is an ending too.
func (w *walk) extensionConfig(
	name string,
	own *anypb.Any,
	discovery *corev3.ExtensionConfigSource,
) (packed *anypb.Any, from []config.Key, end []Ending) {
	if discovery == nil {
		return own, w.from, nil
	}
	d, ok, err := w.decodeExtension(name)
	switch {
	case err != nil:
		return nil, nil, w.failWith(err)
	case !ok && discovery.GetDefaultConfig() != nil:
		return discovery.GetDefaultConfig(), w.from, nil
	case !ok:
		w.addNote(StageFilter, name, "the extension configuration was not received: the listener waits for it")
		return nil, nil, singleEnding(Refused, "extension "+name+" was not received")
	}
	return d.message.GetTypedConfig(), d.from, nil
}

// unpackAny decodes a into m and returns m. The second result is false if a is nil, of another type
// or invalid.
func unpackAny[T proto.Message](a *anypb.Any, m T) (T, bool) {
	if a == nil || !a.MessageIs(m) || a.UnmarshalTo(m) != nil {
		return m, false
	}
	return m, true
}
