package translate

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/grpc"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/internal/translate/patch"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// Table is the list of all generators, with their statistics.
type Table struct {
	// Generators has the generators for Envoys, then for gRPC applications, then for agents. Each
	// group is in push order: a resource comes before the resources that reference it.
	Generators []view.Generator
	// Computed returns, by type URL, how many resources have been generated since the start.
	// Resources found in a cache are not counted.
	Computed map[string]func() uint64
	// Unserved returns the settings of objects that gRPC does not implement for an application
	// without a proxy, by its View and the names that it has subscribed to. It returns nothing for
	// other proxies.
	Unserved func(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem

	envoys envoySet
}

// Options configure a Table.
type Options struct {
	// Secrets decides which proxies may receive which secrets (default secret.Entitled).
	Secrets secret.Policy
}

// NewTable returns the generators with empty caches: for Envoys, for gRPC applications without a
// proxy, and for agents. Options.Secrets defaults to secret.Entitled.
func NewTable(o Options) *Table {
	if o.Secrets == nil {
		o.Secrets = secret.Entitled
	}
	e := envoySet{
		clusters:  cluster.NewGenerator(),
		endpoints: endpoint.NewGenerator(),
		listeners: listener.NewGenerator(),
		routes:    route.NewGenerator(),
		plugins:   plugin.NewGenerator(),
		secrets:   secret.NewGenerator(o.Secrets),
	}
	e.patching = patching{patch.New(), e.clusters, e.listeners, e.routes}
	reduced := grpc.Envoy{Clusters: e.clusters, Endpoints: e.endpoints, Routes: e.routes}
	applications := grpc.NewGenerator(reduced)
	names, proxyConfigs := nametable.NewGenerator(), proxyconfig.NewGenerator()
	forAgents := []view.Generator{
		{TypeURL: api.NameTableType, All: names.All, Touched: nametable.Touched, Scope: nametable.Scope},
		{TypeURL: api.ProxyConfigType, All: proxyConfigs.All, Touched: proxyconfig.Touched, Scope: proxyconfig.Scope},
	}
	return &Table{
		Generators: slices.Concat(e.generators(), proxylessGenerators(applications, reduced), forAgents),
		Unserved:   applications.Problems,
		envoys:     e,
		Computed: map[string]func() uint64{
			api.ClusterType:     e.clusters.Computed,
			api.EndpointType:    e.endpoints.Computed,
			api.ExtensionType:   func() uint64 { return e.listeners.ComputedExtensions() + e.plugins.Computed() },
			api.ListenerType:    e.listeners.Computed,
			api.RouteType:       e.routes.Computed,
			api.SecretType:      e.secrets.Computed,
			api.NameTableType:   names.Computed,
			api.ProxyConfigType: proxyConfigs.Computed,
		},
	}
}
