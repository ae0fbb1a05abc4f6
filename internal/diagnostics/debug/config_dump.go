package debug

import (
	"encoding/json"
	"fmt"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	// Messages that listeners and clusters contain as Any are shown in full only if their types are
	// linked into the program.
	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// configDump serves the config_dump of the proxy in ?proxyID=. It returns a Refusal if the
// parameter is missing, or no such proxy is connected that the caller may see. With ?types=, names
// or type URLs separated by commas, it serves only resources of those types (typedDump). Otherwise
// endpoints are included only with ?include_eds.
func (p *Pages) configDump(q question) (answer, error) {
	c, err := p.findConnection(q)
	if err != nil {
		return answer{}, err
	}
	if types := q.Get("types"); types != "" {
		return typedDump(q, c, strings.Split(types, ","))
	}
	dump, err := ConfigDump(c, q.Has("include_eds"))
	if err != nil {
		return answer{}, err
	}
	var configs []json.RawMessage
	for _, x := range dump {
		configs = append(configs, anyJSON(x))
	}
	return jsonAnswer(q, map[string]any{"configs": configs})
}

// typedPage returns the function of a page with the resources of the type with the short name, such
// as "ecds", that the proxy in ?proxyID= was sent. The page returns a Refusal if the proxy is not
// found.
func (p *Pages) typedPage(short string) func(question) (answer, error) {
	return func(q question) (answer, error) {
		c, err := p.findConnection(q)
		if err != nil {
			return answer{}, err
		}
		return typedDump(q, c, []string{short})
	}
}

// typedDump serves the resources of the given types, short names or type URLs, that the proxy was
// sent. With ?cluster= it includes only resources whose name contains that text, whatever their
// type. A type that occurs twice in types is listed twice. Private keys and pull secrets are
// redacted.
func typedDump(q question, c push.Connection, types []string) (answer, error) {
	configs := []json.RawMessage{}
	for _, w := range c.Types {
		for _, t := range types {
			if !matchesType(w.TypeURL, t) {
				continue
			}
			for _, r := range w.Resources() {
				if strings.Contains(r.Name, q.Get("cluster")) {
					configs = append(configs, anyJSON(redactSecrets(r)))
				}
			}
		}
	}
	return jsonAnswer(q, map[string]any{"configs": configs})
}

// configDump has the messages of Envoy's config_dump that contain resources.
type configDump struct {
	clusters   adminv3.ClustersConfigDump
	listeners  adminv3.ListenersConfigDump
	routes     adminv3.RoutesConfigDump
	endpoints  adminv3.EndpointsConfigDump
	secrets    adminv3.SecretsConfigDump
	extensions adminv3.EcdsConfigDump
}

// ConfigDump returns the resources that a proxy was sent as the messages of Envoy's config_dump, in
// Envoy's order. The bootstrap and scoped routes are empty, and resources of other types are left
// out. As in Envoy, endpoints are included only if requested. Private keys and pull secrets are
// redacted.
func ConfigDump(c push.Connection, endpoints bool) ([]*anypb.Any, error) {
	d := new(configDump)
	for _, w := range c.Types {
		for _, r := range w.Resources() {
			d.addResource(api.ShortType(w.TypeURL), r)
		}
	}
	if w, ok := watchedType(c, api.ClusterType); ok {
		d.clusters.VersionInfo = w.SentVersion
	}
	if w, ok := watchedType(c, api.ListenerType); ok {
		d.listeners.VersionInfo = w.SentVersion
	}
	parts := []proto.Message{new(adminv3.BootstrapConfigDump), &d.clusters}
	if endpoints {
		parts = append(parts, &d.endpoints)
	}
	parts = append(parts, &d.listeners, new(adminv3.ScopedRoutesConfigDump), &d.routes, &d.secrets, &d.extensions)
	var list []*anypb.Any
	for _, m := range parts {
		a, err := anypb.New(m)
		if err != nil {
			return nil, fmt.Errorf("dump %s: %w", m.ProtoReflect().Descriptor().Name(), err)
		}
		list = append(list, a)
	}
	return list, nil
}

// addResource adds a redacted resource to the message of its type, such as "CDS". It ignores other
// types.
func (d *configDump) addResource(shortType string, r *resource.Resource) {
	a := redactSecrets(r)
	switch shortType {
	case "CDS":
		d.clusters.DynamicActiveClusters = append(
			d.clusters.DynamicActiveClusters,
			&adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: r.Version, Cluster: a},
		)
	case "LDS":
		d.listeners.DynamicListeners = append(
			d.listeners.DynamicListeners,
			&adminv3.ListenersConfigDump_DynamicListener{
				Name:        r.Name,
				ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: r.Version, Listener: a},
			},
		)
	case "RDS":
		d.routes.DynamicRouteConfigs = append(
			d.routes.DynamicRouteConfigs,
			&adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: r.Version, RouteConfig: a},
		)
	case "EDS":
		d.endpoints.DynamicEndpointConfigs = append(
			d.endpoints.DynamicEndpointConfigs,
			&adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: r.Version, EndpointConfig: a},
		)
	case "SDS":
		d.secrets.DynamicActiveSecrets = append(
			d.secrets.DynamicActiveSecrets,
			&adminv3.SecretsConfigDump_DynamicSecret{Name: r.Name, VersionInfo: r.Version, Secret: a},
		)
	case "ECDS":
		d.extensions.EcdsFilters = append(
			d.extensions.EcdsFilters,
			&adminv3.EcdsConfigDump_EcdsFilterConfig{VersionInfo: r.Version, EcdsFilter: a},
		)
	}
}

// anyJSON returns a message as JSON. A message that cannot be marshalled is returned as its type
// URL and encoded bytes. An EnvoyFilter can cause that with a type that is not linked into the
// program. NameTables are decoded by package mesh.
func anyJSON(a *anypb.Any) json.RawMessage {
	if a.TypeUrl == api.NameTableType {
		if t, err := mesh.DecodeNameTable(a.Value); err == nil {
			return nameTableJSON(t)
		}
	}
	b, err := protojson.Marshal(a)
	if err != nil {
		return asJSON(map[string]any{"@type": a.TypeUrl, "value": a.Value})
	}
	return b
}

// nameInfo is an entry of a NameTable in protobuf's JSON form.
type nameInfo struct {
	IPs       []string `json:"ips,omitempty"`
	Registry  string   `json:"registry,omitempty"`
	ShortName string   `json:"shortname,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

// nameTableJSON returns a NameTable in protobuf's JSON form, with its type in "@type".
func nameTableJSON(t mesh.NameTable) json.RawMessage {
	lines := make(map[mesh.Hostname]nameInfo, len(t))
	for host, e := range t {
		lines[host] = nameInfo{e.IPs, string(e.Registry), e.ShortName, e.Namespace}
	}
	return asJSON(map[string]any{"@type": api.NameTableType, "table": lines})
}
