package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterSet selects the supported parts of the Multi-Cluster Services API. The zero value disables
// it: a service is the same in all clusters of a mesh, which is Istio's default.
type ClusterSet struct {
	// Exports limits callers in other clusters to the endpoints of services with a ServiceExport
	// here (default false; ENABLE_MCS_SERVICE_DISCOVERY).
	Exports bool
	// Hosts adds the hostname NAME.NAMESPACE.svc.clusterset.local to services whose ServiceImport
	// has addresses (default false; ENABLE_MCS_HOST; requires Exports).
	Hosts bool
	// Local limits the usual hostname of a service to endpoints in the caller's cluster (default
	// false; ENABLE_MCS_CLUSTER_LOCAL; requires Hosts).
	Local bool
}

// withPrerequisites returns s without the options whose prerequisites are disabled: Hosts requires
// Exports, and Local requires Hosts.
func (s ClusterSet) withPrerequisites() ClusterSet {
	s.Hosts = s.Hosts && s.Exports
	s.Local = s.Local && s.Hosts
	return s
}

// setExport records whether a Service has a ServiceExport, and marks its slices. It does nothing if
// that is unchanged or exports are disabled. It marks the set of services of the cluster set, too.
func (c *Converter) setExport(k name, exported bool) {
	if !c.options.ClusterSet.Exports || exported == c.exports.has(k) {
		return
	}
	c.clusterSetDirty = true
	if exported {
		c.exports.add(k)
	} else {
		delete(c.exports, k)
	}
	c.dirtySlices.addAll(c.slicesOf.Values(k))
}

// setImport stores a ServiceImport, or deletes it if now is nil, and marks what depends on it. It
// does nothing for an unchanged one, or if hosts of the cluster set are disabled. Slices are marked
// only if the import was added or deleted.
func (c *Converter) setImport(k name, now *config.Config) {
	old := c.imports[k]
	if !c.options.ClusterSet.Hosts || old == nil && now == nil || isUnchanged(old, now) {
		return
	}
	if now == nil {
		delete(c.imports, k)
	} else {
		c.imports[k] = now
	}
	c.dirtyImports.add(k)
	c.clusterSetDirty = true
	if (old == nil) != (now == nil) {
		c.dirtySlices.addAll(c.slicesOf.Values(k))
	}
}

// clusterSetKey returns the key of the Service k under its hostname in the cluster set,
// name.namespace.svc.clusterset.local.
func clusterSetKey(k name) mesh.ServiceKey {
	return mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.ClusterSetHost(k.Namespace, k.Name)}
}

// flushImports converts the marked ServiceImports, emits their services and Problems, and clears
// the marks. An import whose conversion panics keeps its last result.
func (c *Converter) flushImports(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyImports.drain() {
		out, _ = c.flushObject(out, api.ServiceImport, k, c.imports[k], c.emitted.imports, c.importedService)
	}
	return out
}

// importedService returns the service of a ServiceImport, with sorted addresses. If the Service of
// this name has cluster IPs, it has the settings of that (mesh.Service.WithImport), and if the
// cluster does not have the Service, SettingsOf. It returns nil if the import has no valid address
// (headless, or not assigned yet). Invalid addresses and ports are reported in wrong.
func (c *Converter) importedService(k name, object *config.Config, wrong *problems) *mesh.Service {
	spec := &config.Spec[*mcsv1beta1.ServiceImport](object).Spec
	var addresses []string
	for i, a := range spec.IPs {
		if ip, ok := canonicalIP(a); ok {
			addresses = append(addresses, ip)
		} else {
			wrong.add(config.Error, fmt.Sprintf("spec.ips[%d]", i),
				fmt.Sprintf("%q is not an IP address; it is left out", a))
		}
	}
	if len(addresses) == 0 {
		return nil
	}
	slices.Sort(addresses)
	s := mesh.Service{
		ServiceKey: clusterSetKey(k), Addresses: addresses, From: object.Key,
		Provider: mesh.Kubernetes, Cluster: c.options.Cluster, Name: k.Name, Ports: importedPorts(spec.Ports, wrong),
		Resolution: mesh.Static,
		Labels:     object.Labels, Created: object.Created.UTC(), Session: c.options.Labels.SessionOf(object.Labels),
		NodeLocal: spec.InternalTrafficPolicy != nil &&
			*spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
	}
	switch own := c.emitted.services.Value(k); {
	case own == nil:
		s.SettingsOf = c.serviceKey(k).Host
	case own.Resolution == mesh.Static:
		return own.WithImport(&s)
	}
	return s.Sealed()
}

// importedPorts returns the ports of a ServiceImport. Invalid ones are left out and reported in
// wrong.
func importedPorts(ports []mcsv1beta1.ServicePort, wrong *problems) []mesh.Port {
	list := make([]corev1.ServicePort, len(ports))
	for i, p := range ports {
		list[i] = corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port}
	}
	return servicePorts(list, wrong)
}

// isConfined reports whether callers in other clusters must not use the endpoints of the Service k:
// under its usual hostname, and under its hostname in the cluster set.
func (c *Converter) isConfined(k name) (usual, clusterSet bool) {
	hidden := c.options.ClusterSet.Exports && !c.exports.has(k)
	return hidden || c.options.ClusterSet.Local, hidden
}
