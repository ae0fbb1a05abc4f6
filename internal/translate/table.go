package translate

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
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

// Generator generates the resources of one type for a View. It is pure: its caches do not affect
// the output.
type Generator struct {
	TypeURL string
	// All returns all resources of a type that proxies subscribe to as a whole (CDS, LDS). It is
	// nil for types that are subscribed by name.
	All func(v *view.View) []*resource.Resource
	// Named returns one resource of a type that proxies subscribe to by name (EDS, RDS), or nil if
	// no resource has that name. It is nil for types that have All.
	Named func(v *view.View, name string) *resource.Resource
	// Every returns, sorted by name, the output of Named for all names that the View's proxies are
	// certain to request. If Every is nil, each resource is generated when it is requested.
	Every func(v *view.View) []*resource.Resource
	// Update returns the difference between the outputs of All for old and for v. If ok is false
	// the difference is unknown, and All must be called. If Update is nil, it always is.
	Update func(old, v *view.View, d snapshot.Delta) (diff resource.Diff, ok bool)
	// Affected returns the elements of names, which are sorted, whose output of Named may differ
	// between old and v. If Affected is nil, all of them may.
	Affected func(old, v *view.View, d snapshot.Delta, names []string) []string
	// Touched reports whether a change may alter the output for v; s is the snapshot after the
	// change. If Touched is nil, the output may change with anything that the View sees, except for
	// endpoints if All is set.
	Touched func(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool
	// Inbound is set if the resources configure inbound traffic.
	Inbound bool
	// Local reports whether a proxy's acceptance of the named resource depends on something that
	// only that proxy has, such as its files. If Local is nil, it never does.
	Local func(name string) bool
	// Scope returns the part of a Key that the output depends on, with the other fields zero. Views
	// with equal Scopes share the output. If Scope is nil, the output depends on the whole Key.
	Scope func(k view.Key) view.Key
}

// Table is the list of all generators, with their statistics.
type Table struct {
	// Generators has the generators for Envoys, then those for gRPC applications, then those for
	// agents. Each group is in push order: a resource comes before the resources that reference it.
	Generators []Generator
	// Computed returns, by type URL, how many resources have been generated since the start.
	// Resources found in a cache are not counted.
	Computed map[string]func() uint64
	// Conflicts returns what services, rules and patches of one View have no effect because others
	// take precedence.
	Conflicts func(v *view.View) []config.Problem
	// Unserved returns the settings of objects that gRPC does not implement for an application
	// without a proxy, by its View and the names that it has subscribed to. It returns nothing for
	// other proxies.
	Unserved func(v *view.View, p *mesh.Proxy, asked func(typeURL string) []string) []config.Problem
}

// Options configure a Table.
type Options struct {
	// Secrets decides which proxies may receive which secrets (default secret.Entitled).
	Secrets secret.Policy
}

// NewTable returns the generators with empty caches.
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
	forAgents := []Generator{
		{TypeURL: api.NameTableType, All: names.All, Touched: nametable.Touched, Scope: nametable.Scope},
		{TypeURL: api.ProxyConfigType, All: proxyConfigs.All, Touched: proxyconfig.Touched, Scope: proxyconfig.Scope},
	}
	return &Table{
		Generators: slices.Concat(e.generators(), proxylessGenerators(applications, reduced), forAgents),
		Unserved:   applications.Problems,
		Conflicts: func(v *view.View) []config.Problem {
			return slices.Concat(e.listeners.Problems(v), cluster.EnvoyProblems(v), e.patching.problems(v))
		},
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
