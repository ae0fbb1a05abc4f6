package nomad

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/metadata"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// convert converts the registrations of a service by metadata.NewService, whose metadata are the
// tags. The zone of an instance is its datacenter, and the region Nomad's, unless tags declare
// others. Instances are sorted by ID, and the error is that of NewService.
func (s *Settings) convert(key adapter.ServiceKey, instances map[string]registration) (*adapter.Service, error) {
	list := make([]metadata.Registration, 0, len(instances))
	for _, id := range slices.Sorted(maps.Keys(instances)) {
		r := instances[id]
		list = append(list, metadata.Registration{
			ID: id, Address: r.Address, Port: r.Port, Metadata: metadataOf(&r),
			Zone: r.Datacenter, Region: cmp.Or(s.Region, "global"),
		})
	}
	return metadata.NewService(key, s.host(key), list)
}

// key returns the key of a service.
func (s *Settings) key(namespace, name string) adapter.ServiceKey {
	return adapter.ServiceKey{Namespace: metadata.HostPart(namespace), Name: name}
}

// host returns the host of a service: NAME.service.DOMAIN in Nomad's namespace default, otherwise
// NAME.NAMESPACE.service.DOMAIN.
func (s *Settings) host(key adapter.ServiceKey) string {
	name := metadata.HostPart(key.Name)
	if key.Namespace != defaultNamespace {
		name += "." + key.Namespace
	}
	return name + ".service." + s.Domain
}

// metadataOf returns the tags of the form key=value or key|value, and the job as the label job.
// Other tags are ignored. The first "=" or "|" of a tag separates. A tag with the key job replaces
// the label.
func metadataOf(r *registration) map[string]string {
	meta := map[string]string{}
	if r.JobID != "" {
		meta["job"] = r.JobID
	}
	for _, tag := range r.Tags {
		if i := strings.IndexAny(tag, "=|"); i > 0 {
			meta[tag[:i]] = tag[i+1:]
		}
	}
	return meta
}
