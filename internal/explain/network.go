package explain

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// transparentNetworkFilter says that a filter only watches.
func transparentNetworkFilter(kind string) bool {
	switch kind {
	case "mongo_proxy", "mysql_proxy", "postgres_proxy", "zookeeper_proxy", "kafka_broker", "metadata_exchange", "connection_limit":
		return true
	}
	return false
}

// network passes the connection through the filters of a chain.
func (w *walk) network(chain *listenerv3.FilterChain) []Ending {
	for _, f := range chain.GetFilters() {
		config, end := w.filterConfig(f)
		if end != nil {
			return end
		}
		message, err := config.UnmarshalNew()
		if err != nil {
			if transparentNetworkFilter(filterKind(f.GetName())) {
				continue
			}
			return w.unsupported(f.GetName(), "its configuration %s is not known here", config.GetTypeUrl())
		}
		switch m := message.(type) {
		case *tcpv3.TcpProxy:
			return w.tcpProxy(m)
		case *hcmv3.HttpConnectionManager:
			return w.http(m)
		case *snidfpv3.FilterConfig:
			w.dynamicByServerName(m)
			continue
		}
		if !transparentNetworkFilter(filterKind(f.GetName())) {
			w.note(StageUnsupported, f.GetName(), "this network filter is not followed: it may do more than watch")
		}
	}
	w.note(StageFilterChain, chain.GetName(), "has no filter that ends it, so the connection is closed")
	return ended(Closed, "the chain has no end")
}

// filterConfig gives a network filter's configuration, by ECDS where that has it.
func (w *walk) filterConfig(f *listenerv3.Filter) (*anypb.Any, []Ending) {
	if f.GetConfigDiscovery() == nil {
		return f.GetTypedConfig(), nil
	}
	d, ok, err := w.extension(f.GetName())
	switch {
	case err != nil:
		return nil, w.fail(err)
	case !ok && f.GetConfigDiscovery().GetDefaultConfig() != nil:
		return f.GetConfigDiscovery().GetDefaultConfig(), nil
	case !ok:
		w.note(StageFilter, f.GetName(), "this extension is not there: the listener waits for it")
		return nil, ended(Refused, "extension "+f.GetName()+" has not come")
	}
	w.step(Step{Stage: StageFilter, Resource: f.GetName(), Decided: "comes by ECDS", By: w.few(d.from)})
	w.from = d.from
	return d.message.GetTypedConfig(), nil
}

// unpack reads an Any of a known type; ok is false for another type.
func unpack[T proto.Message](a *anypb.Any, m T) (T, bool) {
	if a == nil || !a.MessageIs(m) || a.UnmarshalTo(m) != nil {
		return m, false
	}
	return m, true
}
