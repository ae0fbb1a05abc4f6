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

// AppendRegistryFeeds appends the sources of the registries beside Kubernetes that Registries selects.
// It returns an error if the settings of one are invalid.
func (o Options) AppendRegistryFeeds(list []ingest.Feed, logs *obs.Logs, m *obs.Metrics) ([]ingest.Feed, error) {
	if !slices.Contains(o.Registries, registryConsul) {
		return list, nil
	}
	source, err := consul.New(consul.Options{Settings: o.Consul, Logger: logs.Scope("consul"), Metrics: &m.Consul})
	if err != nil {
		return nil, err
	}
	return append(list, source), nil
}

// AppendRegistryConverters appends the converters of these registries.
func (o Options) AppendRegistryConverters(list []registry.Converter, r *recovery.Recorder) []registry.Converter {
	if !slices.Contains(o.Registries, registryConsul) {
		return list
	}
	return append(list, consul.NewConverter(consul.ConverterOptions{
		Cluster: mesh.ClusterID(o.ClusterID), Domain: o.Consul.Domain, Labels: o.Registry.Labels, Recovery: r,
	}))
}
