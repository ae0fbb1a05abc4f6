package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterSet is how much of the Multi-Cluster Services API is followed. The zero value is nothing: services are the same in all
// clusters of a mesh, as is Istio's default.
type ClusterSet struct {
	// Exports: callers in other clusters know the endpoints of those services alone that have a ServiceExport here
	// (ENABLE_MCS_SERVICE_DISCOVERY).
	Exports bool
	// Hosts: a service that has a ServiceImport with addresses is also called NAME.NAMESPACE.svc.clusterset.local
	// (ENABLE_MCS_HOST; needs Exports).
	Hosts bool
	// Local: by its usual name a service is that of the caller's cluster alone (ENABLE_MCS_CLUSTER_LOCAL; needs Hosts).
	Local bool
}

// resolved turns off what needs something that is off: Hosts needs Exports, and Local needs Hosts.
func (s ClusterSet) resolved() ClusterSet {
	s.Hosts = s.Hosts && s.Exports
	s.Local = s.Local && s.Hosts
	return s
}

// setExport takes up that a Service is exported, or is not any more.
func (c *Converter) setExport(k name, exported bool) {
	if !c.options.ClusterSet.Exports || exported == c.exports.has(k) {
		return
	}
	c.clusterSetOther = true
	if exported {
		c.exports.add(k)
	} else {
		delete(c.exports, k)
	}
	c.dirtySlices.addAll(c.slicesOf.Of(k))
}

// setImport takes up a ServiceImport, nil if it is gone.
func (c *Converter) setImport(k name, now *config.Config) {
	old := c.imports[k]
	if !c.options.ClusterSet.Hosts || old == nil && now == nil || unchanged(old, now) {
		return
	}
	if now == nil {
		delete(c.imports, k)
	} else {
		c.imports[k] = now
	}
	c.dirtyImports.add(k)
	c.clusterSetOther = true
	if (old == nil) != (now == nil) {
		c.dirtySlices.addAll(c.slicesOf.Of(k))
	}
}

// clusterSetKey names a service as callers of the Multi-Cluster Services API do.
func clusterSetKey(k name) mesh.ServiceKey {
	return mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.Hostname(k.Name + "." + k.Namespace + ".svc." + mesh.ClusterSetDomain)}
}

func (c *Converter) flushImports(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyImports.take() {
		var now *mesh.Service
		var wrong problems
		key, object := config.Key{Kind: api.ServiceImport, Namespace: k.Namespace, Name: k.Name}, c.imports[k]
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, key, originOf(object), func() {
			if object != nil {
				wrong = problemsOf(object)
				now = c.importedService(k, object, &wrong)
			}
		})
		if !converted {
			continue
		}
		out = c.sayService(out, c.said.imports, k, now)
		out = c.sayProblems(out, key, wrong.list)
	}
	return out
}

// importedService makes the service that a ServiceImport stands for: like the Service of its name if there is one here, at the
// addresses of the import. Without addresses (headless, or not given any yet) there is none. Its endpoints are those of the Service in
// all clusters that export it.
func (c *Converter) importedService(k name, object *config.Config, wrong *problems) *mesh.Service {
	spec := &config.Spec[*mcsv1beta1.ServiceImport](object).Spec
	var addresses []string
	for i, a := range spec.IPs {
		if ip, ok := canonicalIP(a); ok {
			addresses = append(addresses, ip)
		} else {
			wrong.add(config.Error, fmt.Sprintf("spec.ips[%d]", i), fmt.Sprintf("%q is not an IP address; it is left out", a))
		}
	}
	if len(addresses) == 0 {
		return nil
	}
	slices.Sort(addresses)
	s := mesh.Service{
		Provider: mesh.Kubernetes, Cluster: c.options.Cluster, Name: k.Name, Ports: importedPorts(spec.Ports, wrong), Resolution: mesh.Static,
		Labels: object.Labels, Created: object.Created.UTC(), Session: c.options.Labels.SessionOf(object.Labels),
		NodeLocal: spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
	}
	if own := c.said.services[k]; own != nil && own.Resolution == mesh.Static {
		s = *own
		s.External, s.ExternalPorts, s.Hash = nil, nil, 0
	}
	// Whose pods they are is said by the Service itself.
	s.Selector, s.SelectsPods, s.SelectsWorkloadEntries = nil, false, false
	s.ServiceKey, s.Addresses, s.From = clusterSetKey(k), addresses, object.Key
	return s.Sealed()
}

func importedPorts(ports []mcsv1beta1.ServicePort, wrong *problems) []mesh.Port {
	list := make([]corev1.ServicePort, len(ports))
	for i, p := range ports {
		list[i] = corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port}
	}
	return servicePorts(list, wrong)
}

// confined says whether callers in other clusters are kept from the endpoints of a Service, by its usual name and by that of the
// cluster set.
func (c *Converter) confined(k name) (usual, clusterSet bool) {
	hidden := c.options.ClusterSet.Exports && !c.exports.has(k)
	return hidden || c.options.ClusterSet.Local, hidden
}
