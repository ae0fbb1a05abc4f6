package kube

import (
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// sliceReader converts one EndpointSlice.
type sliceReader struct {
	c       *Converter
	object  *config.Config
	service name
	rules   sliceRules
	family  discoveryv1.AddressType
	*problems

	endpoints []mesh.Endpoint
	held      int // addresses that wait for their pod
}

type slicePort struct {
	name   string
	number uint32
}

// newShards returns the shard for the Service's usual hostname, and the shard for its hostname in
// the cluster set, or nil if it has none there. A slice of FQDNs has no endpoints, which is a
// Problem. Held endpoints are a Problem too.
func (r *sliceReader) newShards() (usual, clusterSet *mesh.Shard) {
	slice := config.Spec[*discoveryv1.EndpointSlice](r.object)
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		r.add(
			config.Warning,
			"addressType",
			"FQDN is not supported, nor is it by Istio: the slice's endpoints are left out",
		)
	} else {
		r.readEndpoints(slice)
	}
	if r.held > 0 {
		// The number is not part of the text, because it would change with each pod when many are
		// missing.
		r.add(config.Warning, "endpoints", "some are held back until the pods that they refer to are known")
	}
	slices.SortFunc(r.endpoints, compareEndpoints)
	hidden, confined := r.c.isConfined(r.service)
	usual = r.newShard(r.c.serviceKey(r.service), hidden)
	if r.c.options.ClusterSet.Hosts && (!confined || r.c.imports[r.service] != nil) {
		r.endpoints = slices.Clone(r.endpoints)
		clusterSet = r.newShard(clusterSetKey(r.service), confined)
	}
	return usual, clusterSet
}

// newShard returns a shard of the endpoints for a service. Of endpoints with the same address and
// ports it has the first one. confined is set for endpoints that other clusters must not use. The
// endpoints must be sorted (compareEndpoints); they are modified and shared.
func (r *sliceReader) newShard(service mesh.ServiceKey, confined bool) *mesh.Shard {
	shard := mesh.Shard{
		Service: service,
		Key:     mesh.ShardKey{Provider: mesh.Kubernetes, Cluster: r.c.options.Cluster, Object: r.object.Key},
	}
	for i := range r.endpoints {
		if i == 0 || compareAddresses(&r.endpoints[i-1], &r.endpoints[i]) != 0 {
			r.endpoints[i].Confined = confined
			shard.Endpoints = append(shard.Endpoints, &r.endpoints[i])
		}
	}
	return shard.Sealed()
}

// readEndpoints sets r.endpoints to the endpoints of a slice, one for each address and port.
// Endpoints that the rules of the Service exclude by their conditions are left out; so are invalid
// ports and addresses, with a Problem. Addresses of unknown pods are only counted in r.held.
func (r *sliceReader) readEndpoints(slice *discoveryv1.EndpointSlice) {
	ports := r.readPorts(slice.Ports)
	r.family = slice.AddressType
	r.rules = r.c.sliceRules(r.c.services[r.service])
	r.endpoints = make([]mesh.Endpoint, 0, len(slice.Endpoints)*len(ports))
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		health, there := r.rules.endpointHealth(e.Conditions)
		if !there {
			continue
		}
		for j, a := range e.Addresses {
			ip, ok := canonicalIP(a)
			if !ok {
				r.add(
					config.Error,
					fmt.Sprintf("endpoints[%d].addresses[%d]", i, j),
					fmt.Sprintf("%q is not an IP address; it is left out", a),
				)
				continue
			}
			r.addEndpoints(ip, health, e, ports)
		}
	}
}

// readPorts returns the ports of a slice, which apply to all its endpoints. A port without a name
// belongs to a Service whose only port has no name. Invalid ports are left out with a Problem.
func (r *sliceReader) readPorts(ports []discoveryv1.EndpointPort) []slicePort {
	list := make([]slicePort, 0, len(ports))
	for i, p := range ports {
		if p.Port == nil || *p.Port < 1 || *p.Port > 65535 {
			r.add(config.Error, fmt.Sprintf("ports[%d].port", i), "is not a port number; the port is left out")
			continue
		}
		port := slicePort{number: uint32(*p.Port)}
		if p.Name != nil {
			port.name = *p.Name
		}
		list = append(list, port)
	}
	return list
}

// addEndpoints adds the endpoints of one address, one per port. An address whose pod is unknown,
// has another UID or could not be converted is only counted in r.held. Without the pod it would
// have no identity, labels or locality. health is used unless the pod's labels declare another one
// than Healthy. A dual-stack endpoint is added only for its IPv4 slice, with all addresses.
func (r *sliceReader) addEndpoints(address string, health mesh.Health, e *discoveryv1.Endpoint, ports []slicePort) {
	k, refers := podOf(r.object.Namespace, e)
	var p *pod
	if refers {
		if p = r.c.pods[k]; p == nil || p.workload == nil || !p.hasUID(e.TargetRef.UID) {
			r.held++
			return
		}
	} else {
		// the pod could not be converted
		if p = r.c.podAt(r.object.Namespace, address); p != nil && p.workload == nil {
			r.held++
			return
		}
	}
	var base mesh.Endpoint
	switch {
	case p == nil:
		base = r.c.podlessEndpoint(r.object.Namespace, address, e)
	case refers && r.rules.dualStack && len(p.ips) > 1:
		if r.family == discoveryv1.AddressTypeIPv6 {
			return // the IPv4 slice contains the endpoint with both addresses
		}
		base = podEndpoint(p, r.service, e)
		base.Address, base.MoreAddresses = p.ips[0], p.ips[1:]
	default:
		base = podEndpoint(p, r.service, e)
		base.Address = address
	}
	if base.Health == mesh.Healthy {
		base.Health = health
	}
	for _, port := range ports {
		base.Port, base.ServicePort = port.number, port.name
		r.endpoints = append(r.endpoints, base)
	}
}

// podEndpoint returns an endpoint of a pod without address and port. Its hostname is the pod's if
// the pod's subdomain is the Service, else the hostname of e, if any. The pod must have a workload.
func podEndpoint(p *pod, service name, e *discoveryv1.Endpoint) mesh.Endpoint {
	w := p.workload
	hostname := ""
	switch {
	case p.subdomain != "" && p.subdomain == service.Name && w.Namespace == service.Namespace:
		hostname = p.hostname
	case e.Hostname != nil:
		hostname = *e.Hostname
	}
	return mesh.Endpoint{
		Labels: w.Labels, Account: w.Account, Workload: w.Name, Owner: w.Owner, Namespace: w.Namespace,
		Hostname: hostname,
		Node:     w.Node, Locality: w.Locality, Network: w.Network, Cluster: w.Cluster, Health: w.Health, TLS: w.TLS,
	}
}

// hasUID reports whether an endpoint with this UID refers to this pod and not to another one of the
// same name. Objects from files have no UIDs.
func (p *pod) hasUID(uid types.UID) bool { return uid == "" || p.uid == "" || uid == p.uid }

// podlessEndpoint returns an endpoint for an address that belongs to no known pod, such as one of a
// manually written slice. It has no identity and no locality.
func (c *Converter) podlessEndpoint(namespace, address string, e *discoveryv1.Endpoint) mesh.Endpoint {
	network := c.networkOf(nil, address)
	endpoint := mesh.Endpoint{Address: address, Namespace: namespace, Network: network, Cluster: c.options.Cluster}
	if e.NodeName != nil {
		endpoint.Node = *e.NodeName
	}
	if e.Hostname != nil {
		endpoint.Hostname = *e.Hostname
	}
	endpoint.Labels = registry.Topology{Cluster: c.options.Cluster, Network: network, Node: endpoint.Node}.Labels(nil)
	return endpoint
}
