package debug

import (
	"encoding/json"
	"net/http"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	// The messages that listeners and clusters hold inside Any are shown in full only if their types are linked in.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/resource"
)

func (p *pages) configDump(w http.ResponseWriter, r *http.Request) {
	c, ok := p.find(w, r)
	if !ok {
		return
	}
	dump := new(adminv3.ConfigDump)
	add := func(m proto.Message) error {
		a, err := anypb.New(m)
		dump.Configs = append(dump.Configs, a)
		return err
	}
	clusters, listeners, routes := watch(c, api.ClusterType), watch(c, api.ListenerType), watch(c, api.RouteType)
	cd := &adminv3.ClustersConfigDump{VersionInfo: clusters.SentVersion}
	for _, x := range clusters.Resources {
		cd.DynamicActiveClusters = append(cd.DynamicActiveClusters, &adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: x.Version, Cluster: asAny(x)})
	}
	ld := &adminv3.ListenersConfigDump{VersionInfo: listeners.SentVersion}
	for _, x := range listeners.Resources {
		ld.DynamicListeners = append(ld.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
			Name: x.Name, ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: x.Version, Listener: asAny(x)},
		})
	}
	rd := new(adminv3.RoutesConfigDump)
	for _, x := range routes.Resources {
		rd.DynamicRouteConfigs = append(rd.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: x.Version, RouteConfig: asAny(x)})
	}
	for _, m := range []proto.Message{cd, ld, rd} {
		if err := add(m); err != nil {
			http.Error(w, "config dump: "+err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if endpoints := watch(c, api.EndpointType); r.URL.Query().Has("include_eds") {
		ed := new(adminv3.EndpointsConfigDump)
		for _, x := range endpoints.Resources {
			ed.DynamicEndpointConfigs = append(ed.DynamicEndpointConfigs, &adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: x.Version, EndpointConfig: asAny(x)})
		}
		if err := add(ed); err != nil {
			http.Error(w, "config dump: "+err.Error(), http.StatusInternalServerError)
			return
		}
	}
	b, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(dump)
	if err != nil {
		http.Error(w, "config dump: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // the client went away
}

func asAny(r *resource.Resource) *anypb.Any { return &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body} }

func (p *pages) edsz(w http.ResponseWriter, r *http.Request) {
	c, ok := p.find(w, r)
	if !ok {
		return
	}
	list := []json.RawMessage{}
	for _, x := range watch(c, api.EndpointType).Resources {
		if cluster := r.URL.Query().Get("cluster"); cluster != "" && !strings.Contains(x.Name, cluster) {
			continue
		}
		m, err := asAny(x).UnmarshalNew()
		if err != nil {
			http.Error(w, "endpoints: "+err.Error(), http.StatusInternalServerError)
			return
		}
		list = append(list, protoJSON(m))
	}
	writeJSON(w, list)
}

// pushStatus gives what came up when the current state was made, by kind of trouble, in istiod's shape: metric, then what it is
// about, then who has it.
func (p *pages) pushStatus(w http.ResponseWriter, _ *http.Request) {
	out := map[string]map[string]map[string]string{}
	note := func(metric, about, proxy, message string) {
		if out[metric] == nil {
			out[metric] = map[string]map[string]string{}
		}
		if out[metric][about] == nil {
			out[metric][about] = map[string]string{}
		}
		out[metric][about]["proxy"], out[metric][about]["message"] = proxy, message
	}
	for _, n := range p.Proxies.Nacks() {
		if n.Standing {
			note("pilot_total_xds_rejects", api.ShortType(n.TypeURL), name(n.Proxy), n.Message)
		}
	}
	for _, c := range p.conflicts() {
		note("pilot_conflict_outbound_listener", c.Key.String(), "", c.Reason)
	}
	s := p.Snapshot()
	for _, c := range p.Proxies.Connections() {
		known := false
		for _, a := range c.Proxy.Addresses {
			known = known || s.At(a) != nil
		}
		if !known {
			note("pilot_no_ip", name(c.Proxy), c.Proxy.ID, "no workload or endpoint is known at the proxy's address")
		}
	}
	writeJSON(w, out)
}
