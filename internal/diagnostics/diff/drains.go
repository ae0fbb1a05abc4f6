package diff

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
)

// drainsOf returns the connections that Envoy ends because of one changed resource, or nil if there
// are none.
//
// A listener that changes outside its filter chains is replaced and drained as a whole. Otherwise
// Envoy updates it in place: only chains that are changed or removed drain. A cluster that changes
// or disappears loses its connection pools; requests in flight finish, and raw connections stay.
// Added resources, routes, endpoints and extension configs end no connection.
func drainsOf(d difference) []Drain {
	if d.before == nil {
		return nil
	}
	before := decodeBody(d.before)
	var after proto.Message
	if d.after != nil {
		after = decodeBody(d.after)
	}
	switch b := before.(type) {
	case *listenerv3.Listener:
		a, _ := after.(*listenerv3.Listener)
		return listenerDrains(b, a)
	case *clusterv3.Cluster:
		effect := "cluster is removed: new requests on a route that still names it get 503 NC"
		if a, ok := after.(*clusterv3.Cluster); ok {
			if proto.Equal(a, b) {
				return nil
			}
			effect = "connection pools are replaced: requests in flight finish, later ones open new connections"
		}
		return []Drain{{Resource: b.GetName(), Effect: effect}}
	}
	return nil
}

const drainEffect = "connections drain: HTTP clients are asked to reconnect, others are closed after the drain time"

// listenerDrains returns the connections that drain when a listener changes, or is removed if after
// is nil. A change outside of the filter chains replaces the listener, so all its connections
// drain. Otherwise only chains that are changed or removed drain; without any it returns nil.
func listenerDrains(before, after *listenerv3.Listener) []Drain {
	name := before.GetName()
	if after == nil {
		return []Drain{{Resource: name, Effect: "listener is removed: all its " + drainEffect}}
	}
	if fields := fieldsOutsideChains(before, after); len(fields) > 0 {
		return []Drain{{Resource: name,
			Effect: fmt.Sprintf("listener is replaced because %s differs: all its %s", fields[0], drainEffect)}}
	}
	kept := map[string]bool{}
	for _, c := range after.GetFilterChains() {
		kept[encodedChain(c)] = true
	}
	present := map[string]bool{}
	for _, c := range after.GetFilterChains() {
		present[chainName(c)] = true
	}
	var list []Drain
	for _, c := range before.GetFilterChains() {
		if kept[encodedChain(c)] {
			continue
		}
		what := "filter chain is removed: its "
		if present[chainName(c)] {
			what = "filter chain changes: its "
		}
		list = append(list, Drain{Resource: name, Chain: chainName(c), Effect: what + drainEffect})
	}
	if c := before.GetDefaultFilterChain(); c != nil && !proto.Equal(c, after.GetDefaultFilterChain()) {
		list = append(list, Drain{Resource: name, Chain: "default", Effect: "filter chain changes: its " + drainEffect})
	}
	return list
}

// encodedChain returns the encoding of a chain, which equal chains share, or "" if it cannot be
// encoded.
func encodedChain(c *listenerv3.FilterChain) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return ""
	}
	return string(b)
}

// fieldsOutsideChains returns the names of the fields that differ and that Envoy cannot change in
// place: all but the filter chains and enable_reuse_port.
func fieldsOutsideChains(a, b *listenerv3.Listener) []string {
	var list []string
	x, y := a.ProtoReflect(), b.ProtoReflect()
	fields := x.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch f.Name() {
		case "filter_chains", "default_filter_chain", "enable_reuse_port":
			continue
		}
		if x.Has(f) != y.Has(f) || x.Has(f) && !x.Get(f).Equal(y.Get(f)) {
			list = append(list, string(f.Name()))
		}
	}
	return list
}
