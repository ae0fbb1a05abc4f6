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

// Options say where the objects count.
type Options struct {
	// Cluster is the cluster that their endpoints are taken to be in: the one of the config source; "Kubernetes" if empty.
	Cluster mesh.ClusterID
	// TrustDomain is the first part of workload identities until Settings name another (MeshConfig.trustDomain);
	// "cluster.local" if empty.
	TrustDomain string
	// SystemNamespace is the namespace whose label topology.istio.io/network names the network of what says none itself. It is empty
	// for the cluster that config is read from: as in Istio, only in others do WorkloadEntries follow their cluster.
	SystemNamespace string
	// Labels are the names of labels of services with sessions, and of workloads that drain.
	Labels mesh.Labels
	// IgnorePods has ServiceEntries not select pods (PILOT_ENABLE_SERVICEENTRY_SELECT_PODS=false).
	IgnorePods bool
	// Recovery confines panics to the object that causes them. If nil, they pass.
	Recovery *recovery.Recorder
}

// Converter converts ServiceEntries and WorkloadEntries. It is used by one goroutine.
type Converter struct {
	options     Options
	source      string
	guard       registry.Guard
	trustDomain string

	mesh          *meshconfig.MeshConfig
	network       mesh.Network // of the whole cluster, from the system namespace
	networks      mesh.NetworkPlan
	distributions map[string]string            // annotation networking.istio.io/traffic-distribution by namespace
	namespaces    map[string]map[string]string // labels by namespace
	objects       map[config.Key]*converted
}

// converted is an object and what was said of it.
type converted struct {
	object   *config.Config
	services []*mesh.Service // sorted by host
	shards   []*mesh.Shard   // sorted by host
	workload *mesh.Workload
	problems []config.Problem
}

var _ registry.Converter = (*Converter)(nil)

// New makes a Converter that knows no objects.
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

// Name is the source of the events that the Converter makes: "External/cluster1".
func (c *Converter) Name() string { return c.source }

// Convert takes ServiceEntry and WorkloadEntry events out of the batch, and puts what follows from each in its place.
// Namespaces are read for the traffic distribution that their ServiceEntries inherit, and pass through: this Converter
// goes before one that takes them out.
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
				out = c.forget(out, object.Key)
			} else {
				out = c.set(out, object)
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

func (c *Converter) set(out mesh.Batch, object *config.Config) mesh.Batch {
	old := c.objects[object.Key]
	if old != nil && object.Hash != 0 && old.object.Hash == object.Hash && old.object.Origin == object.Origin {
		return out
	}
	return c.replace(out, object)
}

// replace converts an object and says what is news.
func (c *Converter) replace(out mesh.Batch, object *config.Config) mesh.Batch {
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
	return c.say(out, object.Key, old, now)
}

func (c *Converter) forget(out mesh.Batch, key config.Key) mesh.Batch {
	old := c.objects[key]
	out, _ = c.guard.Try(out, registry.Convert, key, "", func() {}) // an object that is gone is not wrong
	if old == nil {
		return out
	}
	delete(c.objects, key)
	return c.say(out, key, old, new(converted))
}

func (c *Converter) convert(object *config.Config) *converted {
	now := &converted{object: object}
	r := reader{Converter: c, object: object}
	if object.Kind == api.ServiceEntry {
		r.serviceEntry(config.Spec[*networking.ServiceEntry](object), now)
	} else {
		now.workload = r.workloadEntry(config.Spec[*networking.WorkloadEntry](object))
	}
	now.problems = r.problems
	return now
}

func (c *Converter) setSettings(out mesh.Batch, s *mesh.Settings) mesh.Batch {
	moved := false
	if s.Networks != nil {
		plan := mesh.NewNetworkPlan(s.Networks, c.options.Cluster)
		moved, c.networks = !plan.Equal(c.networks), plan
	}
	if s.Mesh == nil {
		if moved {
			return c.again(out, func(config.Key) bool { return true })
		}
		return out
	}
	old, domain := c.mesh, cmp.Or(s.Mesh.GetTrustDomain(), c.options.TrustDomain)
	c.mesh = s.Mesh
	visible := !proto.Equal(old.GetServiceEntryVisibility(), c.mesh.GetServiceEntryVisibility()) ||
		c.mesh.GetServiceEntryVisibility() != nil && !slices.Equal(old.GetDefaultServiceExportTo(), c.mesh.GetDefaultServiceExportTo())
	switch {
	case domain != c.trustDomain, moved:
		c.trustDomain = domain
		return c.again(out, func(config.Key) bool { return true })
	case visible:
		return c.again(out, func(k config.Key) bool { return k.Kind == api.ServiceEntry })
	default:
		return out
	}
}

func (c *Converter) setNamespace(out mesh.Batch, op mesh.Op, namespace *config.Config) mesh.Batch {
	distribution, labels := "", map[string]string(nil)
	if op == mesh.Upsert {
		distribution, labels = namespace.Annotations[annotation.NetworkingTrafficDistribution.Name], namespace.Labels
	}
	if namespace.Name == c.options.SystemNamespace && c.network != mesh.Network(labels[label.TopologyNetwork.Name]) {
		c.network = mesh.Network(labels[label.TopologyNetwork.Name])
		out = c.again(out, func(config.Key) bool { return true })
	}
	changed := put(c.distributions, namespace.Name, distribution, distribution == "", distribution == c.distributions[namespace.Name])
	relabelled := put(c.namespaces, namespace.Name, labels, len(labels) == 0, maps.Equal(labels, c.namespaces[namespace.Name]))
	if !changed && (!relabelled || c.mesh.GetServiceEntryVisibility() == nil) {
		return out
	}
	return c.again(out, func(k config.Key) bool { return k.Kind == api.ServiceEntry && k.Namespace == namespace.Name })
}

// put notes what is so of a namespace, nothing if it is empty, and says whether it is news.
func put[V any](m map[string]V, namespace string, now V, empty, known bool) bool {
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

// again converts the objects concerned once more, in the order of their keys: something that many of them read has
// changed, which is rare.
func (c *Converter) again(out mesh.Batch, concerned func(config.Key) bool) mesh.Batch {
	var keys []config.Key
	for k := range c.objects {
		if concerned(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, config.Key.Compare)
	for _, k := range keys {
		out = c.replace(out, c.objects[k].object)
	}
	return out
}

// account is the SPIFFE ID of a service account.
func (c *Converter) account(namespace, serviceAccount string) string {
	if serviceAccount == "" {
		return ""
	}
	return spiffe.Account{TrustDomain: c.trustDomain, Namespace: namespace, Name: serviceAccount}.String()
}
