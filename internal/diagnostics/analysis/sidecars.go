package analysis

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// checkSidecars adds Warnings for Sidecars without a selector that have no effect, because an older
// one applies to the whole namespace. It also adds Warnings for egress listeners whose hosts or
// ports import nothing, and for egress proxies that do not exist.
func (a *analyzer) checkSidecars() {
	general := map[string]*config.Config{}
	for _, c := range slices.SortedStableFunc(slices.Values(a.s.Configs(api.Sidecar)), config.CompareAge) {
		spec := config.Spec[*networking.Sidecar](c)
		if len(spec.GetWorkloadSelector().GetLabels()) == 0 {
			if first := general[c.Namespace]; first != nil {
				a.warn(
					code.MultipleSidecarsWithoutWorkloadSelectors,
					c,
					"spec.workloadSelector",
					fmt.Sprintf("is not set, nor is it in Sidecar %q, which is older: this one has no effect",
						first.Name),
				)
			} else {
				general[c.Namespace] = c
			}
		}
		for i, l := range spec.GetEgress() {
			a.reportEgressHosts(c, fmt.Sprintf("spec.egress[%d]", i), l)
			a.reportEgressPort(c, fmt.Sprintf("spec.egress[%d].port.number", i), l)
		}
		a.reportEgressProxy(c, spec.GetOutboundTrafficPolicy().GetEgressProxy())
	}
}

// reportEgressHosts adds a Warning for each host of an egress listener that imports nothing,
// because no service or VirtualService has it in its namespace. Wildcards, excluded hosts and
// entries without a namespace are skipped.
func (a *analyzer) reportEgressHosts(c *config.Config, field string, l *networking.IstioEgressListener) {
	for i, text := range l.GetHosts() {
		namespace, name, ok := strings.Cut(text, "/")
		host := mesh.Hostname(strings.ToLower(name))
		if !ok || host.IsWildcard() || strings.HasPrefix(namespace, "~") {
			continue
		}
		services, in := a.servicesFor(host), view.ParseEgressHosts([]string{text}, c.Namespace)
		if slices.ContainsFunc(services, in.SelectsService) ||
			slices.ContainsFunc(a.s.VirtualServices(), in.SelectsVirtualService) {
			continue
		}
		hint := ""
		if at := slices.IndexFunc(services, func(s *mesh.Service) bool { return s.Host == host }); at >= 0 {
			hint = fmt.Sprintf("; namespace %q has one", services[at].Namespace)
		} else if full := mesh.ResolveShortName(name, c.Namespace, a.s.Settings.Domain); full != host &&
			len(a.servicesFor(full)) > 0 {
			hint = fmt.Sprintf("; the full name of the host is %q", full)
		}
		a.warn(code.FieldWithoutEffect, c, fmt.Sprintf("%s.hosts[%d]", field, i),
			fmt.Sprintf("%q imports nothing: no service or VirtualService of the namespace has the host%s", text, hint))
	}
}

// reportEgressPort adds a Warning for an egress listener with a port that none of the services that
// its hosts select has. It adds none if they select no service, or a VirtualService, which may
// route the port elsewhere. It also adds none if the port does not limit the imports
// (view.ImportedPort).
func (a *analyzer) reportEgressPort(c *config.Config, field string, l *networking.IstioEgressListener) {
	port, limited := view.ImportedPort(l)
	if !limited {
		return
	}
	in := view.ParseEgressHosts(l.GetHosts(), c.Namespace)
	if slices.ContainsFunc(a.s.VirtualServices(), in.SelectsVirtualService) {
		return
	}
	selected := false
	for _, s := range a.s.Services() {
		if in.SelectsService(s) {
			if _, ok := s.Port(port); ok {
				return
			}
			selected = true
		}
	}
	if selected {
		a.warn(code.FieldWithoutEffect, c, field,
			fmt.Sprintf("no service that the hosts select has port %d: the listener imports nothing", port))
	}
}

// reportEgressProxy adds a Warning for a missing host or, if the host exists, a missing subset of
// the destination for traffic without a route. The port is not checked. Without a host it does
// nothing.
func (a *analyzer) reportEgressProxy(c *config.Config, d *networking.Destination) {
	const field = "spec.outboundTrafficPolicy.egressProxy"
	if d.GetHost() == "" {
		return
	}
	host := mesh.ResolveShortName(d.Host, c.Namespace, a.s.Settings.Domain)
	services := a.servicesFor(host)
	switch {
	case len(services) == 0:
		a.warn(
			code.ReferencedResourceNotFound,
			c,
			field+".host",
			fmt.Sprintf("no service has the host %q: connections to unknown destinations fail", host),
		)
	case d.Subset != "" && !a.hasSubset(c.Namespace, services, d.Subset):
		a.warn(
			code.ReferencedResourceNotFound,
			c,
			field+".subset",
			fmt.Sprintf(
				"no DestinationRule defines a subset %q of %q: connections to unknown destinations fail",
				d.Subset, host),
		)
	}
}
