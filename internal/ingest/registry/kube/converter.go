package kube

import (
	"cmp"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Options say which cluster the objects are of and how they are to be read.
type Options struct {
	// Cluster is the cluster that the objects belong to; "Kubernetes" if empty.
	Cluster mesh.ClusterID
	// Domain is the DNS suffix of services (--domain); "cluster.local" if empty.
	Domain string
	// TrustDomain is the first part of workload identities until Settings name another (MeshConfig.trustDomain);
	// "cluster.local" if empty.
	TrustDomain string
	// SystemNamespace is the namespace whose label topology.istio.io/network names the network of the whole cluster;
	// "istio-system" if empty.
	SystemNamespace string
	// EndpointsFromPods is for objects that no cluster stands behind (files): nobody runs the endpoint controller
	// there, so a Service that has a selector and no EndpointSlice takes its endpoints from the ready pods that it
	// selects, and a pod that says nothing about its readiness is ready.
	EndpointsFromPods bool
	// ReadyOnly leaves out endpoints that are not ready, which callers otherwise know as unhealthy; but for services whose callers prefer
	// near ones, and must know when those are too few (PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false).
	ReadyOnly bool
	// Labels are the names of labels of services with sessions, and of pods that drain.
	Labels mesh.Labels
	// DualStack makes one endpoint of a pod's addresses of both families, where its Service has both (ISTIO_DUAL_STACK).
	// Otherwise they are two.
	DualStack bool
	// IgnoreWorkloadEntries has Services not select WorkloadEntries (PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES=false).
	IgnoreWorkloadEntries bool
	// Remote says that config is read from another cluster. IgnoreGateways has Gateways of the Gateway API not lead into networks
	// (PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API=false).
	Remote, IgnoreGateways bool
	// ClusterSet is how much of the Multi-Cluster Services API is followed.
	ClusterSet ClusterSet
	// Recovery confines panics to the object that causes them. If nil, they pass.
	Recovery *recovery.Recorder
}

// name is the namespace and name of an object whose kind is clear from the context.
type name = types.NamespacedName

// Converter converts the objects of one cluster. It is used by one goroutine.
type Converter struct {
	options     Options
	source      string
	guard       registry.Guard
	trustDomain string

	network       mesh.Network // of the whole cluster, from the system namespace
	networks      mesh.NetworkPlan
	nodes         map[string]node
	distributions map[string]string // traffic distribution by namespace

	services map[name]*config.Config // of *corev1.Service
	imports  map[name]*config.Config // of *mcsv1beta1.ServiceImport
	exports  set                     // Services that have a ServiceExport
	slices   map[name]*config.Config // of *discoveryv1.EndpointSlice
	pods     map[name]*pod

	servicesIn   registry.Index[string, name] // by namespace
	onNodes      set                          // Services that are reached by way of nodes
	slicesOf     registry.Index[name, name]   // by Service
	slicesOfPod  registry.Index[name, name]   // by the pod that an endpoint refers to
	slicesOfAddr registry.Index[string, name] // by the address of an endpoint that refers to no pod
	podsOn       registry.Index[string, name] // by node
	podsAt       registry.Index[string, name] // by IP

	dirtyServices, dirtyImports, dirtyPods, dirtySlices set

	said    said
	pending pending

	clusterSet      atomic.Pointer[[]ClusterSetService]
	clusterSetOther bool // it is to be made anew
}

var _ registry.Converter = (*Converter)(nil)

// New makes a Converter that knows no objects.
func New(o Options) *Converter {
	o.Cluster = cmp.Or(o.Cluster, "Kubernetes")
	o.Domain = cmp.Or(o.Domain, "cluster.local")
	o.TrustDomain = cmp.Or(o.TrustDomain, "cluster.local")
	o.SystemNamespace = cmp.Or(o.SystemNamespace, "istio-system")
	o.ClusterSet = o.ClusterSet.resolved()
	return &Converter{
		options:       o,
		source:        string(mesh.Kubernetes) + "/" + string(o.Cluster),
		guard:         registry.Guard{Recovery: o.Recovery, Source: string(mesh.Kubernetes) + "/" + string(o.Cluster)},
		trustDomain:   o.TrustDomain,
		nodes:         map[string]node{},
		distributions: map[string]string{},
		services:      map[name]*config.Config{},
		imports:       map[name]*config.Config{},
		exports:       set{},
		slices:        map[name]*config.Config{},
		pods:          map[name]*pod{},
		onNodes:       set{},
		dirtyServices: set{},
		dirtyImports:  set{},
		dirtyPods:     set{},
		dirtySlices:   set{},
		said:          newSaid(),
		pending:       pending{bySlice: map[name]int{}},
	}
}

// Name is the source of the events that the Converter makes: "Kubernetes/cluster1".
func (c *Converter) Name() string { return c.source }

// Convert takes Service, EndpointSlice, Pod, Node, Namespace, ServiceExport and ServiceImport events out of the batch, and says which
// Gateways of the Gateway API, which it leaves there, lead into networks. What follows from all of them together is at the end of the batch, or before Synced if that is in it: services, then workloads, then shards, each
// sorted by namespace and name.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Config != nil:
			taken := true // also if it panics: an object of ours does not pass
			out, _ = c.guard.Try(out, registry.Read, e.Config.Key, e.Config.Origin, func() { taken = c.take(e.Op, e.Config) })
			if taken {
				continue
			}
			out = c.takeGateway(out, e)
		case e.Settings != nil:
			c.setSettings(e.Settings)
		case e.Op == mesh.Synced:
			out = c.flush(out)
		}
		out = append(out, e)
	}
	return c.flush(out)
}

// take takes up an event about an object, and says whether its kind is one of ours. No kind's objects are converted
// here: those concerned are marked, and converted once when the batch has been read.
func (c *Converter) take(op mesh.Op, object *config.Config) bool {
	k := name{Namespace: object.Namespace, Name: object.Name}
	kind := object.Kind
	if op == mesh.Delete {
		object = nil
	}
	switch kind {
	case api.Service:
		c.setService(k, object)
	case api.EndpointSlice:
		c.setSlice(k, object)
	case api.Pod:
		c.setPod(k, object)
	case api.Node:
		c.setNode(k.Name, object)
	case api.Namespace:
		c.setNamespace(k.Name, object)
	case api.ServiceExport:
		c.setExport(k, object != nil)
	case api.ServiceImport:
		c.setImport(k, object)
	default:
		return false
	}
	return true
}

func (c *Converter) setSettings(s *mesh.Settings) {
	changed, networks := false, c.networks
	if s.Networks != nil {
		networks = mesh.NewNetworkPlan(s.Networks, c.options.Cluster)
		changed = !networks.Equal(c.networks)
	}
	if s.Mesh != nil {
		domain := cmp.Or(s.Mesh.GetTrustDomain(), c.options.TrustDomain)
		changed = changed || domain != c.trustDomain
		c.trustDomain = domain
	}
	c.networks = networks
	if !changed {
		return
	}
	for k := range c.services {
		c.dirtyServices.add(k)
	}
	c.touchWorkloads()
}

// touchWorkloads marks everything that has an identity or a network.
func (c *Converter) touchWorkloads() {
	for k := range c.pods {
		c.dirtyPods.add(k)
	}
	for k := range c.slices {
		c.dirtySlices.add(k)
	}
}

// flush converts what is marked and appends what is news. Pods go before slices, which take their workloads' values.
func (c *Converter) flush(out mesh.Batch) mesh.Batch {
	out = c.flushServices(out)
	out = c.flushImports(out)
	if c.clusterSetOther {
		c.clusterSetOther = false
		_ = c.options.Recovery.Call("converter", func() error { c.showClusterSet(); return nil }, "source", c.source) // it stays as it was
	}
	out = c.flushPods(out)
	return c.flushSlices(out)
}

// unchanged says that an object can be passed over: same content, same place.
func unchanged(old, now *config.Config) bool {
	return old != nil && now != nil && (old == now || old.Hash != 0 && old.Hash == now.Hash && old.Origin == now.Origin)
}

// account is the SPIFFE ID of a Kubernetes service account.
func (c *Converter) account(namespace, serviceAccount string) string {
	return spiffe.Account{TrustDomain: c.trustDomain, Namespace: namespace, Name: serviceAccount}.String()
}
