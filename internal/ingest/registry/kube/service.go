package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// setService stores a Service, or deletes it if now is nil, and marks it. Its slices are marked too
// if the rules for them changed, and the services of the cluster set if it is exported. It does
// nothing for an unchanged one. Services that are reached by nodes are remembered in c.onNodes.
func (c *Converter) setService(k name, now *config.Config) {
	old := c.services[k]
	if old == nil && now == nil || isUnchanged(old, now) {
		return
	}
	// reads all that is needed before the state changes
	byNodes, otherRules := now != nil && isReachedByNodes(now), c.sliceRules(old) != c.sliceRules(now)
	delete(c.onNodes, k)
	c.clusterSetDirty = c.clusterSetDirty || c.exports.has(k)
	if now == nil {
		delete(c.services, k)
		c.servicesIn.Remove(k.Namespace, k)
	} else {
		c.services[k] = now
		c.servicesIn.Add(k.Namespace, k)
		if byNodes {
			c.onNodes.add(k)
		}
	}
	c.dirtyServices.add(k)
	if otherRules {
		c.dirtySlices.addAll(c.slicesOf.Values(k))
	}
}

// flushServices converts the marked Services, emits their services and Problems, and clears the
// marks. It marks the ServiceImports of the same name. A Service whose conversion panics keeps its
// last result.
func (c *Converter) flushServices(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyServices.drain() {
		var converted bool
		out, converted = c.flushObject(out, api.Service, k, c.services[k], c.emitted.services, c.newService)
		if converted && c.imports[k] != nil {
			c.dirtyImports.add(k)
		}
	}
	return out
}

// flushObject converts a Service or ServiceImport, and appends the changes of its service and
// Problems. If object is nil, both are deleted. If the conversion panics, it returns false, appends
// only that Problem, and the last result stays.
func (c *Converter) flushObject(
	out mesh.Batch,
	kind api.Kind,
	k name,
	object *config.Config,
	emitter *emit.Emitter[name, *mesh.Service],
	convert func(name, *config.Config, *problems) *mesh.Service,
) (mesh.Batch, bool) {
	var now *mesh.Service
	var wrong problems
	key := config.Key{Kind: kind, Namespace: k.Namespace, Name: k.Name}
	out, converted := c.guard.Try(out, registry.Convert, key, registry.OriginOf(object), func() {
		if object != nil {
			wrong = problemsOf(object)
			now = convert(k, object, &wrong)
		}
	})
	if converted {
		out = c.emitService(out, emitter, k, now)
		out = c.emitted.problems.Emit(out, key, wrong.list)
	}
	return out, converted
}

// serviceKey returns the key of a Service: the hostname is name.namespace.svc.domain.
func (c *Converter) serviceKey(k name) mesh.ServiceKey {
	return mesh.ServiceKey{
		Namespace: k.Namespace,
		Host:      mesh.Hostname(k.Name + "." + k.Namespace + ".svc." + c.options.Domain),
	}
}

// newService returns the service of a Service, nil only for an ExternalName without a name. Invalid
// ports, cluster IPs and annotations are left out and reported in wrong. A Service with a selector
// selects WorkloadEntries by the options, and pods only if it has no EndpointSlices and endpoints
// are made from pods. A headless Service has the resolution Passthrough, no addresses and no
// WorkloadEntries. If a Service that is reached through nodes has no external address, it gets the
// nodes' external addresses (nodeSelectorOf).
func (c *Converter) newService(k name, object *config.Config, wrong *problems) *mesh.Service {
	spec := &config.Spec[*corev1.Service](object).Spec
	s := mesh.Service{
		ServiceKey: c.serviceKey(k),
		Provider:   mesh.Kubernetes,
		Cluster:    c.options.Cluster,
		Name:       k.Name,
		Ports:      servicePorts(spec.Ports, wrong),
		Resolution: mesh.Static,
		ExportTo:   parseExportTo(object.Annotations[annotation.NetworkingExportTo.Name]),
		Accounts:   c.accountIDs(k.Namespace, object.Annotations),
		Labels:     object.Labels,
		Created:    object.Created.UTC(),
		NodeLocal: spec.InternalTrafficPolicy != nil &&
			*spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		Type:                string(spec.Type),
		PublishNotReady:     spec.PublishNotReadyAddresses,
		Session:             c.options.Labels.SessionOf(object.Labels),
		TrafficDistribution: c.trafficDistribution(k.Namespace, spec, object.Annotations, wrong),
		From:                object.Key,
	}
	s.External = externalAddresses(config.Spec[*corev1.Service](object))
	if selector, asked := nodeSelectorOf(object, wrong); asked {
		s.ExternalPorts = nodePorts(spec.Ports)
		if len(s.External) == 0 {
			s.External = c.nodeAddresses(selector)
		}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return aliasService(s, spec, wrong)
	}
	if len(spec.Selector) > 0 {
		s.Selector = spec.Selector
		s.SelectsWorkloadEntries = c.options.SelectWorkloadEntries
		s.SelectsPods = c.options.EndpointsFromPods && !c.slicesOf.Has(k)
	}
	addresses := spec.ClusterIPs
	if len(addresses) == 0 && spec.ClusterIP != "" {
		addresses = []string{spec.ClusterIP}
	}
	if slices.Contains(addresses, corev1.ClusterIPNone) {
		// Callers of a headless service find its endpoints in DNS, which does not contain
		// WorkloadEntries.
		s.Headless, s.Resolution, s.SelectsWorkloadEntries = true, mesh.Passthrough, false
		return s.Sealed()
	}
	s.Addresses = canonicalClusterIPs(addresses, wrong)
	return s.Sealed()
}

// aliasService returns s, the service of a Service of type ExternalName, as an alias of another
// host, or nil, with a Problem, if that is missing. As in Istio, an alias of a mesh host adds
// domains to its routes, and an alias of an external name generates no configuration; readers of
// the snapshot distinguish them.
func aliasService(s mesh.Service, spec *corev1.ServiceSpec, wrong *problems) *mesh.Service {
	host := strings.ToLower(strings.TrimSuffix(spec.ExternalName, "."))
	if host == "" {
		wrong.add(config.Error, "spec.externalName", "is required for type ExternalName")
		return nil
	}
	s.Resolution, s.MeshExternal, s.AliasOf = mesh.Alias, true, mesh.Hostname(host)
	return s.Sealed()
}

// servicePorts returns the ports of a Service, in their order. Ports with an invalid number are
// left out and reported in wrong. The target is a name or a number, by default the port's own
// number; it is not validated.
func servicePorts(ports []corev1.ServicePort, wrong *problems) []mesh.Port {
	list := make([]mesh.Port, 0, len(ports))
	for i, p := range ports {
		if p.Port < 1 || p.Port > 65535 {
			wrong.add(
				config.Error,
				fmt.Sprintf("spec.ports[%d].port", i),
				fmt.Sprintf("%d is not a port number; the port is left out", p.Port),
			)
			continue
		}
		port := mesh.Port{Name: p.Name, Number: uint32(p.Port), Protocol: protocolOf(p)}
		switch {
		case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
			port.TargetName = p.TargetPort.StrVal
		case p.TargetPort.IntVal > 0:
			port.Target = uint32(p.TargetPort.IntVal)
		default:
			port.Target = port.Number // the API server's default, which objects from files may lack
		}
		list = append(list, port)
	}
	return list
}

// canonicalClusterIPs returns the valid addresses in canonical form; nil if there is none. All
// others, including "None", are left out and are Errors in wrong.
func canonicalClusterIPs(addresses []string, wrong *problems) []string {
	var list []string
	for i, a := range addresses {
		ip, ok := canonicalIP(a)
		if !ok {
			wrong.add(
				config.Error,
				fmt.Sprintf("spec.clusterIPs[%d]", i),
				fmt.Sprintf("%q is not an IP address; it is left out", a),
			)
			continue
		}
		list = append(list, ip)
	}
	return list
}

// externalAddresses returns the addresses of the Service's load balancers, IPs or names, and its
// valid externalIPs, sorted and without duplicates.
func externalAddresses(service *corev1.Service) []string {
	var list []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		switch {
		case ingress.IP != "":
			list = append(list, ingress.IP)
		case ingress.Hostname != "":
			list = append(list, ingress.Hostname)
		}
	}
	for _, a := range service.Spec.ExternalIPs {
		if ip, ok := canonicalIP(a); ok {
			list = append(list, ip)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// parseExportTo returns the namespaces in the annotation networking.istio.io/exportTo, which are
// separated by commas, sorted and without duplicates. It returns nil for an empty text.
func parseExportTo(text string) []string {
	list := splitList(text)
	slices.Sort(list)
	return slices.Compact(list)
}

// accountIDs returns the SPIFFE IDs that two annotations add to the identities of a service, for
// endpoints outside the cluster, sorted and without duplicates. One annotation has IDs, which are
// not checked, the other names of service accounts in the namespace. It returns nil if there are
// none.
func (c *Converter) accountIDs(namespace string, annotations map[string]string) []string {
	list := splitList(annotations[annotation.AlphaCanonicalServiceAccounts.Name])
	for _, sa := range splitList(annotations[annotation.AlphaKubernetesServiceAccounts.Name]) {
		list = append(list, c.accountID(namespace, sa))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// splitList returns the elements of a list that is separated by commas, without white space and
// empty elements.
func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
