package options

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// registryConsul is the value of --registries that selects Consul.
const registryConsul = "Consul"

// consulFeed returns the source of Consul, or an error if its settings are refused.
func (o Options) consulFeed(logs *obs.Logs, m *obs.Metrics) (ingest.Feed, error) {
	return consul.New(consul.Options{Settings: o.Consul, Logger: logs.Scope("consul"), Metrics: &m.Consul})
}

// AppendRegistryConverters returns list with the converters of the selected registries whose
// objects are not ServiceEntries: only Consul's.
func (o Options) AppendRegistryConverters(list []registry.Converter, r *recovery.Recorder) []registry.Converter {
	if !slices.Contains(o.Registries, registryConsul) {
		return list
	}
	return append(list, consul.NewConverter(consul.ConverterOptions{
		Cluster: mesh.ClusterID(o.ClusterID), Domain: o.Consul.Domain, Labels: o.Registry.Labels, Recovery: r,
	}))
}
