package consul

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ConverterOptions configure a Converter.
type ConverterOptions struct {
	// Cluster is the cluster of the endpoints (default "Kubernetes").
	Cluster mesh.ClusterID
	// OtherDatacenters are the datacenters beside that of Cluster. The cluster of their endpoints
	// has the name of the datacenter (--consulOtherDatacenters).
	OtherDatacenters []string
	// Peers are the cluster peers. The cluster of their endpoints has the name of the peer
	// (--consulPeers).
	Peers []string
	// Domain is the DNS domain of Consul (default "consul"; --consulDomain).
	Domain string
	// TrustDomain is the trust domain of workload identities until Settings contain another one
	// (default "cluster.local"; MeshConfig.trustDomain).
	TrustDomain string
	// Labels are the names of the labels for persistent sessions and for draining workloads.
	Labels mesh.LabelNames
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
}

// Converter converts objects of Kind to services and shards. It must be used by one goroutine at a
// time.
type Converter struct {
	options     ConverterOptions
	source      string
	guard       registry.Guard
	trustDomain string
	networks    map[mesh.ClusterID]mesh.NetworkPlan
	objects     map[config.Key]*converted
}

// converted is an object and its conversion. Both lists are sorted by host.
type converted struct {
	object   *config.Config
	services []*mesh.Service
	shards   []*mesh.Shard
	problems []config.Problem
}

var _ registry.Converter = (*Converter)(nil)

// NewConverter returns a Converter without objects. The cluster is "Kubernetes", the domain
// DefaultDomain and the trust domain "cluster.local" if o does not set them.
func NewConverter(o ConverterOptions) *Converter {
	o.Cluster = cmp.Or(o.Cluster, "Kubernetes")
	o.Domain = cmp.Or(o.Domain, DefaultDomain)
	o.TrustDomain = cmp.Or(o.TrustDomain, "cluster.local")
	source := string(mesh.Consul) + "/" + string(o.Cluster)
	return &Converter{
		options:     o,
		source:      source,
		guard:       registry.Guard{Recovery: o.Recovery, Source: source},
		trustDomain: o.TrustDomain,
		objects:     map[config.Key]*converted{},
	}
}

// Convert replaces events about objects of Kind with the changes of their services, shards and
// Problems. All other events pass through in order; settings among them may change all services. It
// returns a new batch.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Config == nil || e.Config.Kind != Kind:
			out = append(out, e)
			if e.Settings != nil {
				out = c.setSettings(out, e.Settings)
			}
		case e.Op == mesh.Delete:
			out = c.deleteObject(out, e.Config.Key)
		default:
			out = c.setObject(out, e.Config)
		}
	}
	return out
}

// setObject converts an object and appends what changed. It does nothing if the content is the same
// as before. A hash of 0 always differs.
func (c *Converter) setObject(out mesh.Batch, object *config.Config) mesh.Batch {
	if old := c.objects[object.Key]; old != nil && object.Hash != 0 && old.object.Hash == object.Hash {
		return out
	}
	return c.convertObject(out, object)
}

// convertObject converts an object and appends the differences to its previous conversion, which it
// replaces in c.objects. If the conversion panics, the previous one stays in use, and a Problem is
// appended.
func (c *Converter) convertObject(out mesh.Batch, object *config.Config) mesh.Batch {
	var now *converted
	out, ok := c.guard.Try(out, registry.Convert, object.Key, object.Origin, func() { now = c.convert(object) })
	if !ok {
		return out
	}
	old := c.objects[object.Key]
	if old == nil {
		old = new(converted)
	}
	c.objects[object.Key] = now
	return c.appendDifferences(out, object.Key, old, now)
}

// deleteObject deletes an object and appends the events that delete its services, shards and
// Problems. For an unknown object it only clears the Problem of a panic.
func (c *Converter) deleteObject(out mesh.Batch, key config.Key) mesh.Batch {
	out = c.guard.ClearProblem(out, registry.Convert, key)
	old := c.objects[key]
	if old == nil {
		return out
	}
	delete(c.objects, key)
	return c.appendDifferences(out, key, old, new(converted))
}

// setSettings stores the trust domain, by default that of the options, and the networks. If one of
// them changed, it converts all objects again, in the order of their keys, and appends the
// differences. Networks or a MeshConfig that s does not have (nil) stay as they are.
func (c *Converter) setSettings(out mesh.Batch, s *mesh.Settings) mesh.Batch {
	changed := false
	if s.Networks != nil {
		changed = c.setNetworks(s.Networks)
	}
	if s.Mesh != nil {
		domain := cmp.Or(s.Mesh.GetTrustDomain(), c.options.TrustDomain)
		changed, c.trustDomain = changed || domain != c.trustDomain, domain
	}
	if !changed {
		return out
	}
	keys := make([]config.Key, 0, len(c.objects))
	for k := range c.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, config.Key.Compare)
	for _, k := range keys {
		out = c.convertObject(out, c.objects[k].object)
	}
	return out
}

// setNetworks stores the network plans of the own cluster, the other datacenters and the peers, and
// reports whether one changed.
func (c *Converter) setNetworks(networks *meshconfig.MeshNetworks) bool {
	plans := map[mesh.ClusterID]mesh.NetworkPlan{c.options.Cluster: mesh.NewNetworkPlan(networks, c.options.Cluster)}
	for _, name := range slices.Concat(c.options.OtherDatacenters, c.options.Peers) {
		plans[mesh.ClusterID(name)] = mesh.NewNetworkPlan(networks, mesh.ClusterID(name))
	}
	same := maps.EqualFunc(plans, c.networks, mesh.NetworkPlan.Equal)
	c.networks = plans
	return !same
}

// convert returns the services and shards of an object. Invalid parts are left out and reported in
// its problems.
func (c *Converter) convert(object *config.Config) *converted {
	spec := config.Spec[*Service](object)
	r := reader{
		Converter: c, object: object, service: spec, now: &converted{object: object},
		cluster: cmp.Or(mesh.ClusterID(spec.Datacenter), mesh.ClusterID(spec.Peer), c.options.Cluster),
	}
	r.convertService()
	return r.now
}

// reader converts one object and collects its Problems.
type reader struct {
	*Converter
	object  *config.Config
	service *Service
	cluster mesh.ClusterID // of the endpoints
	now     *converted
}

// addProblem adds a Problem of a field of the object. It ignores more than ten, because a service
// can have thousands of instances with the same mistake.
func (r *reader) addProblem(severity config.Severity, field, format string, args ...any) {
	const most = 10
	if len(r.now.problems) >= most {
		return
	}
	r.now.problems = append(r.now.problems, config.Problem{
		Key: r.object.Key, Field: field, Reason: fmt.Sprintf(format, args...), Severity: severity,
		Origin: r.object.Origin,
	})
}
