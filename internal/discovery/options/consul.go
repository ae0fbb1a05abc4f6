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

// appendConsulFeeds returns list with a source for each of Consul's datacenters and peers, or an
// error if the settings are refused.
func (o Options) appendConsulFeeds(list []ingest.Feed, logs *obs.Logs, m *obs.Metrics) ([]ingest.Feed, error) {
	sources, err := consul.NewAll(consul.Options{
		Settings: o.Consul, StartTimeout: o.Remote.Timeout, Logger: logs.Scope("consul"), Metrics: &m.Consul,
	})
	for _, s := range sources {
		list = append(list, s)
	}
	return list, err
}

// AppendRegistryConverters returns list with the converters of the selected registries whose
// objects are not ServiceEntries: only Consul's.
func (o Options) AppendRegistryConverters(list []registry.Converter, r *recovery.Recorder) []registry.Converter {
	if !slices.Contains(o.Registries, registryConsul) {
		return list
	}
	return append(list, consul.NewConverter(consul.ConverterOptions{
		Cluster:          mesh.ClusterID(o.ClusterID),
		OtherDatacenters: o.Consul.OtherDatacenters,
		Peers:            o.Consul.Peers,
		Domain:           o.Consul.Domain,
		Labels:           o.Registry.Labels,
		Recovery:         r,
	}))
}
