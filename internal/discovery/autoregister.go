package discovery

import (
	"context"

	"github.com/meshpilot/meshpilot/internal/kube/autoregister"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// newRegistrar returns the registrar of workloads outside of Kubernetes. It stores their entries in
// the API server if config objects are read from there. Otherwise it sets s.registered, a store in
// memory that is saved in the directory of the mesh's authority, if there is one.
func (s *server) newRegistrar() *autoregister.Registrar {
	o := autoregister.Options{
		Settings: s.options.Workloads, Instance: s.options.PodName,
		Group: func(namespace, name string) *config.Config {
			return s.config(config.Key{Kind: api.WorkloadGroup, Namespace: namespace, Name: name})
		},
		Entries: func() []*config.Config { return s.current.Load().Configs(api.WorkloadEntry) },
		Metrics: autoregister.NewMetrics(&s.metrics.Writes), Log: s.logs.Scope("autoregister"),
	}
	if s.client != nil && s.options.ConfigFromCluster() {
		versions := served.New(s.client.Kubernetes, nil)
		o.Store = autoregister.NewKubernetesStore(s.client.Dynamic, s.client.Metadata, versions)
	} else {
		s.registered = autoregister.OpenMemoryStoreIn(s.options.Authority.Dir, o.Log)
		o.Store = s.registered
	}
	return autoregister.New(o)
}

// cleanUpWorkloads deletes abandoned entries until ctx ends: while this replica leads, or always if
// entries are in memory, where there is no other replica. It returns an error only for invalid
// options of the election.
func (s *server) cleanUpWorkloads(ctx context.Context) error {
	if s.registered != nil {
		s.registrar.CleanUpAbandoned(ctx, nil)
		return nil
	}
	o := s.options
	replicas := autoregister.PodReplicas{Client: s.client.Kubernetes, Namespace: o.Namespace, Pod: o.PodName}
	return s.elections.Run(ctx, leader.Workloads, func(ctx context.Context) {
		s.registrar.CleanUpAbandoned(ctx, replicas.IsAlive)
	})
}

// workloads is the Registrar as the xDS server uses it.
type workloads struct{ *autoregister.Registrar }

// Connect registers the workload of a proxy. It returns nil without error if the registrar does
// not handle the proxy. A refused registration is returned as a gRPC status.
func (w workloads) Connect(ctx context.Context, p *mesh.Proxy) (xds.Workload, error) {
	c, err := w.Registrar.Connect(ctx, p)
	if c == nil || err != nil {
		return nil, autoregister.StatusError(p, err) // nil if there is no error
	}
	return c, nil
}
