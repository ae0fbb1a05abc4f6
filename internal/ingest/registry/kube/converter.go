package kube

import (
	"cmp"
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Options configure a Converter.
type Options struct {
	// Cluster is the cluster of the objects (default "Kubernetes").
	Cluster mesh.ClusterID
	// Domain is the DNS suffix of services (default "cluster.local"; --domain).
	Domain string
	// TrustDomain is the trust domain of workload identities until Settings contain another one
	// (default "cluster.local"; MeshConfig.trustDomain).
	TrustDomain string
	// SystemNamespace is the namespace whose label topology.istio.io/network sets the network of
	// the whole cluster (default "istio-system").
	SystemNamespace string
	// EndpointsFromPods supports objects without a running cluster (files), where no controller
	// creates EndpointSlices. A Service with a selector and without an EndpointSlice gets the ready
	// pods that it selects as endpoints. A pod without a Ready condition is ready.
	EndpointsFromPods bool
	// ReadyOnly leaves out endpoints that are not ready instead of sending them as unhealthy
	// (default false; PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS=false). It does not apply to services
	// with a traffic distribution, whose callers fail over if too few near endpoints are healthy.
	ReadyOnly bool
	// Labels are the names of the labels for persistent sessions and for draining pods.
	Labels mesh.LabelNames
	// DualStack merges a pod's IPv4 and IPv6 addresses into one endpoint if the Service has both
	// families (default false; ISTIO_DUAL_STACK). Otherwise they are two endpoints.
	DualStack bool
	// SelectWorkloadEntries lets Services select WorkloadEntries (the control plane's default is
	// true; PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES).
	SelectWorkloadEntries bool
	// DiscoverGateways uses Gateways of the Gateway API as network gateways (the control plane's
	// default is true; PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API).
	DiscoverGateways bool
	// InferencePools leaves out the Services that Istio creates for InferencePools, because their
	// services are converted from the InferencePools.
	InferencePools bool
	// Remote is set if config is read from another cluster.
	Remote bool
	// ClusterSet selects the supported parts of the Multi-Cluster Services API.
	ClusterSet ClusterSet
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
}

// name is the namespace and name of an object whose kind follows from the context.
type name = types.NamespacedName

// Converter converts the objects of one cluster to services, shards and workloads. It must be used
// by one goroutine at a time, except for ClusterSetServices and PendingEndpoints.
type Converter struct {
	options     Options
	source      string
	guard       registry.Guard
	trustDomain string

	network       mesh.Network // of the whole cluster, from the label of the system namespace
	networks      mesh.NetworkPlan
	nodes         map[string]node
	distributions map[string]string // traffic distribution by namespace

	services map[name]*config.Config // of *corev1.Service
	imports  map[name]*config.Config // of *mcsv1beta1.ServiceImport
	exports  dirtySet                // Services that have a ServiceExport
	slices   map[name]*config.Config // of *discoveryv1.EndpointSlice
	pods     map[name]*pod

	servicesIn   registry.Index[string, name] // by namespace
	onNodes      dirtySet                     // Services that are reached through nodes
	slicesOf     registry.Index[name, name]   // by Service
	slicesOfPod  registry.Index[name, name]   // by the pod to which an endpoint refers
	slicesOfAddr registry.Index[string, name] // by the address of an endpoint that refers to no pod
	podsOn       registry.Index[string, name] // by node
	podsAt       registry.Index[string, name] // by IP

	dirtyServices, dirtyImports, dirtyPods, dirtySlices dirtySet

	emitted emitted
	pending pending

	clusterSet      atomic.Pointer[[]ClusterSetService]
	clusterSetDirty bool // the result of ClusterSetServices must be updated
}

var _ registry.Converter = (*Converter)(nil)

// New returns a Converter without objects. Options that are not set get their defaults: cluster
// "Kubernetes", domains "cluster.local", system namespace "istio-system". Options of ClusterSet
// without their prerequisites are disabled.
func New(o Options) *Converter {
	o.Cluster = cmp.Or(o.Cluster, "Kubernetes")
	o.Domain = cmp.Or(o.Domain, "cluster.local")
	o.TrustDomain = cmp.Or(o.TrustDomain, "cluster.local")
	o.SystemNamespace = cmp.Or(o.SystemNamespace, "istio-system")
	o.ClusterSet = o.ClusterSet.withPrerequisites()
	source := string(mesh.Kubernetes) + "/" + string(o.Cluster)
	return &Converter{
		options:       o,
		source:        source,
		guard:         registry.Guard{Recovery: o.Recovery, Source: source},
		trustDomain:   o.TrustDomain,
		nodes:         map[string]node{},
		distributions: map[string]string{},
		services:      map[name]*config.Config{},
		imports:       map[name]*config.Config{},
		exports:       dirtySet{},
		slices:        map[name]*config.Config{},
		pods:          map[name]*pod{},
		onNodes:       dirtySet{},
		dirtyServices: dirtySet{},
		dirtyImports:  dirtySet{},
		dirtyPods:     dirtySet{},
		dirtySlices:   dirtySet{},
		emitted:       newEmitted(source),
		pending:       pending{bySlice: map[name]int{}},
	}
}

// Name returns the Source of the events that the Converter creates: "Kubernetes/cluster1".
func (c *Converter) Name() string { return c.source }

// Convert removes events about Services, EndpointSlices, Pods, Nodes, Namespaces, ServiceExports
// and ServiceImports from the batch. It appends the resulting changes at its end and before Synced:
// services, then workloads, then shards, each sorted by namespace and name. Gateways of the Gateway
// API stay in the batch; after each one Convert adds the network gateways that it defines.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Config != nil:
			taken := true // also after a panic: events of these kinds never pass through
			out, _ = c.guard.Try(
				out,
				registry.Read,
				e.Config.Key,
				e.Config.Origin,
				func() { taken = c.storeObject(e.Op, e.Config) },
			)
			if taken {
				continue
			}
			out = c.applyGateway(out, e)
		case e.Settings != nil:
			c.setSettings(e.Settings)
		case e.Op == mesh.Synced:
			out = c.flush(out)
		}
		out = append(out, e)
	}
	return c.flush(out)
}

// storeObject applies an event about an object and reports whether the Converter removes objects of
// its kind from the batch. It only marks what must be converted at the end of the batch. Objects of
// other kinds are ignored, and it returns false for them. If InferencePools are converted, their
// Services count as deleted.
func (c *Converter) storeObject(op mesh.Op, object *config.Config) bool {
	k := name{Namespace: object.Namespace, Name: object.Name}
	kind := object.Kind
	if op == mesh.Delete || c.options.InferencePools && isPoolService(object) {
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

// isPoolService reports whether an object is the Service that Istio creates for an InferencePool,
// or one of its EndpointSlices, which have the labels of their Service.
func isPoolService(object *config.Config) bool {
	return (object.Kind == api.Service || object.Kind == api.EndpointSlice) &&
		object.Labels["internal.istio.io/service-semantics"] == "inferencepool"
}

// setSettings applies the networks and the trust domain that s contains; fields of s that are nil
// change nothing. Without a trust domain in s.Mesh it is that of the options. If one of them
// changed, it marks all Services, pods and slices.
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
	c.markWorkloads()
}

// markWorkloads marks all pods and slices, because their identity or network may have changed.
func (c *Converter) markWorkloads() {
	for k := range c.pods {
		c.dirtyPods.add(k)
	}
	for k := range c.slices {
		c.dirtySlices.add(k)
	}
}

// flush converts all marked objects, appends the changes and clears the marks. The order is
// Services, ServiceImports, pods, slices, which use the workloads of pods. It updates the result of
// ClusterSetServices if that is marked.
func (c *Converter) flush(out mesh.Batch) mesh.Batch {
	out = c.flushServices(out)
	out = c.flushImports(out)
	if c.clusterSetDirty {
		c.clusterSetDirty = false
		// after a panic the old list stays in use
		_ = c.options.Recovery.Call("converter", func() error { c.updateClusterSet(); return nil }, "source", c.source)
	}
	out = c.flushPods(out)
	return c.flushSlices(out)
}

// isUnchanged reports whether two versions of an object have the same content and origin. It
// returns false if either is nil.
func isUnchanged(old, now *config.Config) bool {
	return old != nil && now != nil && (old == now || old.Hash != 0 && old.Hash == now.Hash && old.Origin == now.Origin)
}

// accountID returns the SPIFFE ID of a Kubernetes service account in the mesh's trust domain. All
// pods of the account share the text.
func (c *Converter) accountID(namespace, serviceAccount string) string {
	id := spiffe.Account{TrustDomain: c.trustDomain, Namespace: namespace, Name: serviceAccount}.String()
	return unique.Make(id).Value()
}
