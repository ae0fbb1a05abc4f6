package kube

import (
	"cmp"
	"sync/atomic"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// setSlice stores an EndpointSlice, or deletes it if now is nil, updates the indexes and marks it.
// If endpoints are made from pods, its former and present Services are marked too. It does nothing
// for an unchanged one.
func (c *Converter) setSlice(k name, now *config.Config) {
	old := c.slices[k]
	if old == nil && now == nil || isUnchanged(old, now) {
		return
	}
	// reads all that is needed before the state changes
	was, is := sliceIndexOf(k, old), sliceIndexOf(k, now)
	c.indexSlice(k, was, (*registry.Index[name, name]).Remove, (*registry.Index[string, name]).Remove)
	c.indexSlice(k, is, (*registry.Index[name, name]).Add, (*registry.Index[string, name]).Add)
	if now == nil {
		delete(c.slices, k)
	} else {
		c.slices[k] = now
	}
	c.dirtySlices.add(k)
	if c.options.EndpointsFromPods {
		for _, slice := range []*config.Config{old, now} {
			if service, ok := serviceOf(slice); ok {
				c.dirtyServices.add(service)
			}
		}
	}
}

// sliceIndex contains the index keys of an EndpointSlice.
type sliceIndex struct {
	services, pods []name
	addresses      []string
}

// sliceIndexOf returns the keys by which a slice is indexed: its Service, and each endpoint's pod,
// or without one its addresses. It returns none if slice is nil. Addresses that are invalid are
// left out.
func sliceIndexOf(k name, slice *config.Config) (x sliceIndex) {
	if slice == nil {
		return x
	}
	if service, ok := serviceOf(slice); ok {
		x.services = []name{service}
	}
	endpoints := config.Spec[*discoveryv1.EndpointSlice](slice).Endpoints
	for i := range endpoints {
		if pod, ok := podOf(k.Namespace, &endpoints[i]); ok {
			x.pods = append(x.pods, pod)
			continue
		}
		for _, a := range endpoints[i].Addresses {
			if ip, ok := canonicalIP(a); ok {
				x.addresses = append(x.addresses, ip)
			}
		}
	}
	return x
}

// indexSlice calls byName or byAddress, which add to or remove from an index, for each key in x of
// slice k.
func (c *Converter) indexSlice(
	k name,
	x sliceIndex,
	byName func(*registry.Index[name, name], name, name),
	byAddress func(*registry.Index[string, name], string, name),
) {
	for _, service := range x.services {
		byName(&c.slicesOf, service, k)
	}
	for _, pod := range x.pods {
		byName(&c.slicesOfPod, pod, k)
	}
	for _, ip := range x.addresses {
		byAddress(&c.slicesOfAddr, ip, k)
	}
}

// clusterSetService is the label of slices that a Multi-Cluster Services controller has copied from
// another cluster. They are ignored, as in Istio, because the mesh reads the other cluster itself.
const clusterSetService = mcsv1beta1.LabelServiceName

// serviceOf returns the Service of a slice, which its label names. ok is false if the slice is nil,
// lacks the label, or is a copy from another cluster of the cluster set.
func serviceOf(slice *config.Config) (name, bool) {
	if slice == nil || slice.Labels[discoveryv1.LabelServiceName] == "" || slice.Labels[clusterSetService] != "" {
		return name{}, false
	}
	return name{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}, true
}

// podOf returns the name of the pod to which an endpoint refers. It returns false if it refers to
// none. namespace is the slice's, the default.
func podOf(namespace string, e *discoveryv1.Endpoint) (name, bool) {
	if e.TargetRef == nil || e.TargetRef.Kind != string(api.Pod) || e.TargetRef.Name == "" {
		return name{}, false
	}
	return name{Namespace: cmp.Or(e.TargetRef.Namespace, namespace), Name: e.TargetRef.Name}, true
}

// flushSlices converts the marked EndpointSlices, emits their shards and Problems, records the
// numbers of their held addresses, and clears the marks. A deleted slice loses all of these. A
// slice whose conversion panics keeps its last result and gets a Problem.
func (c *Converter) flushSlices(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtySlices.drain() {
		var shard, clusterSet *mesh.Shard
		var wrong problems
		held := 0
		key, object := config.Key{Kind: api.EndpointSlice, Namespace: k.Namespace, Name: k.Name}, c.slices[k]
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, key, registry.OriginOf(object), func() {
			shard, clusterSet, held = c.shardsOf(object, &wrong)
		})
		if !converted {
			continue
		}
		c.pending.set(k, held)
		out = c.emitShard(out, c.emitted.shards, k, shard)
		out = c.emitShard(out, c.emitted.clusterSet, k, clusterSet)
		out = c.emitted.problems.Emit(out, key, wrong.list)
	}
	return out
}

// shardsOf returns the shards of an EndpointSlice for its Service's usual hostname and for the
// cluster set; nil if there are none or object is nil. held is the number of its addresses that
// wait for their pods. A slice without a Service is ignored, which is a Problem unless it belongs
// to the cluster set.
func (c *Converter) shardsOf(object *config.Config, wrong *problems) (shard, clusterSet *mesh.Shard, held int) {
	if object == nil {
		return nil, nil, 0
	}
	*wrong = problemsOf(object)
	service, ok := serviceOf(object)
	if !ok {
		if object.Labels[clusterSetService] == "" {
			wrong.add(config.Warning, "metadata.labels["+discoveryv1.LabelServiceName+"]",
				"is missing: the slice belongs to no service and is ignored")
		}
		return nil, nil, 0
	}
	r := sliceReader{c: c, object: object, service: service, problems: wrong}
	shard, clusterSet = r.newShards()
	return shard, clusterSet, r.held
}

// pending counts the addresses that wait for their pods.
type pending struct {
	bySlice map[name]int
	total   atomic.Int64
}

// set replaces the number of held addresses of a slice and updates the total.
func (p *pending) set(slice name, held int) {
	p.total.Add(int64(held - p.bySlice[slice]))
	if held == 0 {
		delete(p.bySlice, slice)
	} else {
		p.bySlice[slice] = held
	}
}

// PendingEndpoints returns the number of addresses that are held back until their pods are known
// (metric pilot_k8s_endpoints_pending_pod). It is safe for concurrent use.
func (c *Converter) PendingEndpoints() int { return int(c.pending.total.Load()) }
