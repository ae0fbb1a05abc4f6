package serviceentry

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"istio.io/api/annotation"
	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Options configure a Converter.
type Options struct {
	// Cluster is the cluster of the objects' endpoints: that of the config source (default
	// "Kubernetes").
	Cluster mesh.ClusterID
	// TrustDomain is the trust domain of workload identities until Settings contain another one
	// (default "cluster.local"; MeshConfig.trustDomain).
	TrustDomain string
	// SystemNamespace is the namespace whose label topology.istio.io/network sets the default
	// network. It is empty for the config cluster: as in Istio, only WorkloadEntries of other
	// clusters inherit the network of their cluster.
	SystemNamespace string
	// Labels are the names of the labels for persistent sessions and for draining workloads.
	Labels mesh.LabelNames
	// SelectPods lets ServiceEntries select pods (the control plane's default is true;
	// PILOT_ENABLE_SERVICEENTRY_SELECT_PODS).
	SelectPods bool
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
}

// Converter converts ServiceEntries and WorkloadEntries. It must be used by one goroutine at a
// time.
type Converter struct {
	options     Options
	source      string
	guard       registry.Guard
	trustDomain string

	mesh     *meshconfig.MeshConfig
	network  mesh.Network // of the whole cluster, from the label of the system namespace
	networks mesh.NetworkPlan
	// annotation networking.istio.io/traffic-distribution by namespace
	distributions map[string]string
	namespaces    map[string]map[string]string // labels by namespace
	objects       map[config.Key]*converted
}

// converted is an object and its conversion.
type converted struct {
	object   *config.Config
	services []*mesh.Service // sorted by host
	shards   []*mesh.Shard   // sorted by host
	workload *mesh.Workload
	problems []config.Problem
}

var _ registry.Converter = (*Converter)(nil)

// New returns a Converter without objects. Options.Cluster defaults to "Kubernetes",
// Options.TrustDomain to "cluster.local".
func New(o Options) *Converter {
	o.Cluster = cmp.Or(o.Cluster, "Kubernetes")
	o.TrustDomain = cmp.Or(o.TrustDomain, "cluster.local")
	return &Converter{
		options:       o,
		source:        string(mesh.External) + "/" + string(o.Cluster),
		guard:         registry.Guard{Recovery: o.Recovery, Source: string(mesh.External) + "/" + string(o.Cluster)},
		trustDomain:   o.TrustDomain,
		distributions: map[string]string{},
		namespaces:    map[string]map[string]string{},
		objects:       map[config.Key]*converted{},
	}
}

// Name returns the Source of the events that the Converter creates: "External/cluster1".
func (c *Converter) Name() string { return c.source }

// Convert replaces events about ServiceEntries and WorkloadEntries with the resulting changes. It
// also reads settings, and Namespaces for the traffic distribution that ServiceEntries inherit, and
// passes both through. It must therefore precede a Converter that removes Namespaces.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		object := e.Config
		switch {
		case object == nil:
			out = append(out, e)
			if e.Settings != nil {
				out = c.setSettings(out, e.Settings)
			}
		case object.Kind == api.ServiceEntry, object.Kind == api.WorkloadEntry:
			if e.Op == mesh.Delete {
				out = c.deleteObject(out, object.Key)
			} else {
				out = c.setObject(out, object)
			}
		case object.Kind == api.Namespace:
			out = append(out, e)
			out = c.setNamespace(out, e.Op, object)
		default:
			out = append(out, e)
		}
	}
	return out
}

// setObject converts an object and appends what changed. It does nothing if the content and origin
// are the same as before.
func (c *Converter) setObject(out mesh.Batch, object *config.Config) mesh.Batch {
	old := c.objects[object.Key]
	if old != nil && object.Hash != 0 && old.object.Hash == object.Hash && old.object.Origin == object.Origin {
		return out
	}
	return c.convertObject(out, object)
}

// convertObject converts an object and appends the differences to its previous conversion. If it
// panics, only the Problem is appended and the previous conversion stays.
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
	return c.emitDifferences(out, object.Key, old, now)
}

// deleteObject deletes an object and appends the events that delete its conversion and Problems.
// For an unknown object it only clears the Problem of a panic.
func (c *Converter) deleteObject(out mesh.Batch, key config.Key) mesh.Batch {
	old := c.objects[key]
	// a deleted object has no Problem
	out, _ = c.guard.Try(out, registry.Convert, key, "", func() {})
	if old == nil {
		return out
	}
	delete(c.objects, key)
	return c.emitDifferences(out, key, old, new(converted))
}

// convert returns the services, shards or workload of a ServiceEntry or WorkloadEntry. Invalid
// parts are left out and reported in its problems.
func (c *Converter) convert(object *config.Config) *converted {
	now := &converted{object: object}
	r := reader{Converter: c, object: object}
	if object.Kind == api.ServiceEntry {
		r.convertServiceEntry(config.Spec[*networking.ServiceEntry](object), now)
	} else {
		now.workload = r.workloadEntry(config.Spec[*networking.WorkloadEntry](object))
	}
	now.problems = r.problems
	return now
}

// setSettings stores the settings and converts the objects again that depend on a changed value:
// all for the trust domain or networks, ServiceEntries for their visibility. Values that the event
// does not have stay.
func (c *Converter) setSettings(out mesh.Batch, s *mesh.Settings) mesh.Batch {
	moved := false
	if s.Networks != nil {
		plan := mesh.NewNetworkPlan(s.Networks, c.options.Cluster)
		moved, c.networks = !plan.Equal(c.networks), plan
	}
	if s.Mesh == nil {
		if moved {
			return c.reconvert(out, func(config.Key) bool { return true })
		}
		return out
	}
	old, domain := c.mesh, cmp.Or(s.Mesh.GetTrustDomain(), c.options.TrustDomain)
	c.mesh = s.Mesh
	visible := !proto.Equal(old.GetServiceEntryVisibility(), c.mesh.GetServiceEntryVisibility()) ||
		c.mesh.GetServiceEntryVisibility() != nil &&
			!slices.Equal(old.GetDefaultServiceExportTo(), c.mesh.GetDefaultServiceExportTo())
	switch {
	case domain != c.trustDomain, moved:
		c.trustDomain = domain
		return c.reconvert(out, func(config.Key) bool { return true })
	case visible:
		return c.reconvert(out, func(k config.Key) bool { return k.Kind == api.ServiceEntry })
	default:
		return out
	}
}

// setNamespace stores the labels and the traffic distribution of a Namespace, or deletes them if op
// is mesh.Delete. It converts all ServiceEntries of the namespace if the traffic distribution
// changed, or if the labels changed and the mesh has a serviceEntryVisibility. If the network label
// of the system namespace changed, it converts all objects. The events are appended to out.
func (c *Converter) setNamespace(out mesh.Batch, op mesh.Op, namespace *config.Config) mesh.Batch {
	distribution, labels := "", map[string]string(nil)
	if op == mesh.Upsert {
		distribution, labels = namespace.Annotations[annotation.NetworkingTrafficDistribution.Name], namespace.Labels
	}
	if namespace.Name == c.options.SystemNamespace && c.network != mesh.Network(labels[label.TopologyNetwork.Name]) {
		c.network = mesh.Network(labels[label.TopologyNetwork.Name])
		out = c.reconvert(out, func(config.Key) bool { return true })
	}
	changed := setOrDelete(
		c.distributions,
		namespace.Name,
		distribution,
		distribution == "",
		distribution == c.distributions[namespace.Name],
	)
	relabelled := setOrDelete(
		c.namespaces,
		namespace.Name,
		labels,
		len(labels) == 0,
		maps.Equal(labels, c.namespaces[namespace.Name]),
	)
	if !changed && (!relabelled || c.mesh.GetServiceEntryVisibility() == nil) {
		return out
	}
	return c.reconvert(
		out,
		func(k config.Key) bool { return k.Kind == api.ServiceEntry && k.Namespace == namespace.Name },
	)
}

// setOrDelete sets m[namespace] to now, or deletes it if empty is set, and returns true. If known
// is set, because now is the present value, it does nothing and returns false.
func setOrDelete[V any](m map[string]V, namespace string, now V, empty, known bool) bool {
	switch {
	case known:
		return false
	case empty:
		delete(m, namespace)
	default:
		m[namespace] = now
	}
	return true
}

// reconvert converts again, in the order of their keys, the objects for which concerned returns
// true, and appends what changed.
func (c *Converter) reconvert(out mesh.Batch, concerned func(config.Key) bool) mesh.Batch {
	var keys []config.Key
	for k := range c.objects {
		if concerned(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, config.Key.Compare)
	for _, k := range keys {
		out = c.convertObject(out, c.objects[k].object)
	}
	return out
}

// accountID returns the SPIFFE ID of a service account in the mesh's trust domain, or "" for an
// empty name.
func (c *Converter) accountID(namespace, serviceAccount string) string {
	if serviceAccount == "" {
		return ""
	}
	return spiffe.Account{TrustDomain: c.trustDomain, Namespace: namespace, Name: serviceAccount}.String()
}
