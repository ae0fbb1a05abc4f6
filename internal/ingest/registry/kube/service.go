package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// setService takes up a Service, nil if it is gone.
func (c *Converter) setService(k name, now *config.Config) {
	old := c.services[k]
	if old == nil && now == nil || unchanged(old, now) {
		return
	}
	byNodes, otherRules := now != nil && reachedByNodes(now), c.sliceRules(old) != c.sliceRules(now) // all that is read of it
	delete(c.onNodes, k)
	c.clusterSetOther = c.clusterSetOther || c.exports.has(k)
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
		c.dirtySlices.addAll(c.slicesOf.Of(k))
	}
}

func (c *Converter) flushServices(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyServices.take() {
		var now *mesh.Service
		var wrong problems
		key, object := config.Key{Kind: api.Service, Namespace: k.Namespace, Name: k.Name}, c.services[k]
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, key, originOf(object), func() {
			if object != nil {
				wrong = problemsOf(object)
				now = c.service(k, object, &wrong)
			}
		})
		if !converted {
			continue
		}
		out = c.sayService(out, c.said.services, k, now)
		if c.imports[k] != nil {
			c.dirtyImports.add(k)
		}
		out = c.sayProblems(out, key, wrong.list)
	}
	return out
}

// serviceKey names a Service as callers do: name.namespace.svc.domain.
func (c *Converter) serviceKey(k name) mesh.ServiceKey {
	return mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.Hostname(k.Name + "." + k.Namespace + ".svc." + c.options.Domain)}
}

// service converts a Service. It gives nil for one that cannot be called at all.
func (c *Converter) service(k name, object *config.Config, wrong *problems) *mesh.Service {
	spec := &config.Spec[*corev1.Service](object).Spec
	s := mesh.Service{
		ServiceKey:          c.serviceKey(k),
		Provider:            mesh.Kubernetes,
		Cluster:             c.options.Cluster,
		Name:                k.Name,
		Ports:               servicePorts(spec.Ports, wrong),
		Resolution:          mesh.Static,
		ExportTo:            exportTo(object.Annotations[annotation.NetworkingExportTo.Name]),
		Accounts:            c.accounts(k.Namespace, object.Annotations),
		Labels:              object.Labels,
		Created:             object.Created.UTC(),
		NodeLocal:           spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
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
		s.SelectsWorkloadEntries = !c.options.IgnoreWorkloadEntries
		s.SelectsPods = c.options.EndpointsFromPods && !c.slicesOf.Has(k)
	}
	addresses := spec.ClusterIPs
	if len(addresses) == 0 && spec.ClusterIP != "" {
		addresses = []string{spec.ClusterIP}
	}
	if slices.Contains(addresses, corev1.ClusterIPNone) {
		// Callers of a headless service find its endpoints in DNS, which knows of no WorkloadEntries.
		s.Headless, s.Resolution, s.SelectsWorkloadEntries = true, mesh.Passthrough, false
		return s.Sealed()
	}
	s.Addresses = clusterIPs(addresses, wrong)
	return s.Sealed()
}

// aliasService makes a service of type ExternalName a second name of another host. Whether that host is one of the
// mesh is for the reader of the snapshot to see: in Istio an alias of a mesh host is more domains of its routes, and an
// alias of an outside name is no configuration at all.
func aliasService(s mesh.Service, spec *corev1.ServiceSpec, wrong *problems) *mesh.Service {
	host := strings.ToLower(strings.TrimSuffix(spec.ExternalName, "."))
	if host == "" {
		wrong.add(config.Error, "spec.externalName", "is required for type ExternalName")
		return nil
	}
	s.Resolution, s.MeshExternal, s.AliasOf = mesh.Alias, true, mesh.Hostname(host)
	return s.Sealed()
}

func servicePorts(ports []corev1.ServicePort, wrong *problems) []mesh.Port {
	list := make([]mesh.Port, 0, len(ports))
	for i, p := range ports {
		if p.Port < 1 || p.Port > 65535 {
			wrong.add(config.Error, fmt.Sprintf("spec.ports[%d].port", i), fmt.Sprintf("%d is not a port number; the port is left out", p.Port))
			continue
		}
		port := mesh.Port{Name: p.Name, Number: uint32(p.Port), Protocol: protocolOf(p)}
		switch {
		case p.TargetPort.Type == intstr.String && p.TargetPort.StrVal != "":
			port.TargetName = p.TargetPort.StrVal
		case p.TargetPort.IntVal > 0:
			port.Target = uint32(p.TargetPort.IntVal)
		default:
			port.Target = port.Number // the API server's default, which objects from files have not been given
		}
		list = append(list, port)
	}
	return list
}

func clusterIPs(addresses []string, wrong *problems) []string {
	var list []string
	for i, a := range addresses {
		ip, ok := canonicalIP(a)
		if !ok {
			wrong.add(config.Error, fmt.Sprintf("spec.clusterIPs[%d]", i), fmt.Sprintf("%q is not an IP address; it is left out", a))
			continue
		}
		list = append(list, ip)
	}
	return list
}

// externalAddresses are those of the load balancers before a Service, and others that lead to it.
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

// exportTo reads the annotation networking.istio.io/exportTo: namespaces separated by commas. Its order means nothing.
func exportTo(text string) []string {
	list := splitList(text)
	slices.Sort(list)
	return slices.Compact(list)
}

// accounts are identities that may answer for a service from outside the cluster, as two annotations list them.
func (c *Converter) accounts(namespace string, annotations map[string]string) []string {
	list := splitList(annotations[annotation.AlphaCanonicalServiceAccounts.Name])
	for _, sa := range splitList(annotations[annotation.AlphaKubernetesServiceAccounts.Name]) {
		list = append(list, c.account(namespace, sa))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
