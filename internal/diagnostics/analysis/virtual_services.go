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
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// checkDelegation adds to a.found the faults of delegation that the snapshot has found. It also
// adds a Warning for each delegate (without hosts) that no VirtualService refers to.
func (a *analyzer) checkDelegation() {
	for _, vs := range a.s.VirtualServices() {
		a.found = append(a.found, vs.Faults...)
		if len(vs.Hosts) == 0 && len(a.s.Delegators(vs.Config.Key)) == 0 {
			a.warn(
				code.UnusedDelegate,
				vs.Config,
				"spec.hosts",
				"there are none, and no VirtualService delegates to this one: its routes are not in use",
			)
		}
	}
}

// checkGateways calls reportGateways for every VirtualService.
func (a *analyzer) checkGateways() {
	for _, vs := range a.s.VirtualServices() {
		a.reportGateways(vs)
	}
}

// reportGateways adds a Warning for each gateway of one VirtualService that does not exist, and for
// each gateway of its matches that is not among its gateways. It skips delegates, because the
// delegating VirtualServices determine their gateways.
func (a *analyzer) reportGateways(vs *snapshot.VirtualService) {
	if len(vs.Hosts) == 0 {
		return
	}
	spec := config.Spec[*networking.VirtualService](vs.Config)
	for i := range spec.Gateways {
		if g := vs.Gateways[i]; !a.isGateway(g) {
			a.warn(
				code.ReferencedResourceNotFound,
				vs.Config,
				fmt.Sprintf("spec.gateways[%d]", i),
				fmt.Sprintf("there is no Gateway %q: the rules are not in use there", g),
			)
		}
	}
	for i, r := range spec.Http {
		for j, m := range r.Match {
			a.matchGateways(vs, fmt.Sprintf("spec.http[%d].match[%d]", i, j), m.GetGateways())
		}
	}
	for i, r := range spec.Tls {
		for j, m := range r.Match {
			a.matchGateways(vs, fmt.Sprintf("spec.tls[%d].match[%d]", i, j), m.GetGateways())
		}
	}
	for i, r := range spec.Tcp {
		for j, m := range r.Match {
			a.matchGateways(vs, fmt.Sprintf("spec.tcp[%d].match[%d]", i, j), m.GetGateways())
		}
	}
}

// matchGateways adds a Warning for each gateway of a match that is not a gateway of the
// VirtualService. match is the path of the match, such as "spec.http[0].match[0]".
func (a *analyzer) matchGateways(vs *snapshot.VirtualService, match string, gateways []string) {
	for i, g := range gateways {
		if full := snapshot.ResolveGateway(g, vs.Config.Namespace); !slices.Contains(vs.Gateways, full) {
			a.warn(
				code.UnreachableGatewayMatch,
				vs.Config,
				fmt.Sprintf("%s.gateways[%d]", match, i),
				fmt.Sprintf("the rules are not for gateway %q: the match never holds there", full),
			)
		}
	}
}

// isGateway reports whether name is the mesh, or the NAMESPACE/NAME of a Gateway that exists. Of an
// existing Gateway, neither hosts nor selector are checked.
func (a *analyzer) isGateway(name string) bool {
	if name == snapshot.MeshGateway {
		return true
	}
	namespace, name, _ := strings.Cut(name, "/")
	return a.s.Config(config.Key{Kind: api.Gateway, Namespace: namespace, Name: name}) != nil
}

// checkShadowedConnections adds Warnings for hosts of VirtualServices with TCP or TLS routes that
// have TCPRoutes or TLSRoutes, which take precedence in sidecars. Only VirtualServices that apply
// to the mesh are considered, and only if a namespace sees both. Each host has one Warning.
func (a *analyzer) checkShadowedConnections() {
	routes := map[mesh.Hostname][]*snapshot.VirtualService{}
	for _, vs := range a.s.VirtualServices() {
		if x := vs.Config.Extension; x != nil && x.Precedes && hasConnectionRoutes(vs) {
			for _, h := range vs.Hosts {
				routes[h] = append(routes[h], vs)
			}
		}
	}
	for _, vs := range a.s.VirtualServices() {
		if vs.Config.Extension != nil || !hasConnectionRoutes(vs) ||
			!slices.Contains(vs.Gateways, snapshot.MeshGateway) {
			continue
		}
		for i, h := range vs.Hosts {
			if at := slices.IndexFunc(routes[h], vs.SharesNamespaceWith); at >= 0 {
				first := routes[h][at].Config.Extension.Source
				a.warn(code.OverriddenObject, vs.Config, fmt.Sprintf("spec.hosts[%d]", i), fmt.Sprintf(
					"%s \"%s/%s\" has the host %q too and takes precedence: sidecars that see both do not use the tcp and tls routes for its ports",
					first.Kind, first.Namespace, first.Name, h))
			}
		}
	}
}

// hasConnectionRoutes reports whether a VirtualService has TCP or TLS routes.
func hasConnectionRoutes(vs *snapshot.VirtualService) bool {
	return len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0
}

// checkShadowed adds a Warning for each host of a VirtualService for which sidecars prefer another
// VirtualService, or routes of the Gateway API. Only VirtualServices with HTTP routes for the mesh
// are compared, and only if a namespace sees both; gateways merge all rules. Private ones precede
// exported ones, then older ones precede.
func (a *analyzer) checkShadowed() {
	before := map[mesh.Hostname][]*snapshot.VirtualService{}
	for _, vs := range a.s.VirtualServices() {
		if x := vs.Config.Extension; x != nil && x.Precedes && len(vs.Spec.GetHttp()) > 0 {
			for _, h := range vs.Hosts {
				before[h] = append(before[h], vs)
			}
		}
	}
	for rank := range 3 { // in the order of precedence in sidecars
		for _, vs := range a.s.VirtualServices() {
			if vs.ExportRank() != rank || len(vs.Spec.GetHttp()) == 0 ||
				!slices.Contains(vs.Gateways, snapshot.MeshGateway) ||
				vs.Config.Extension != nil {
				continue
			}
			for i, h := range vs.Hosts {
				if at := slices.IndexFunc(before[h], vs.SharesNamespaceWith); at >= 0 {
					first := before[h][at].Config.Key
					if x := before[h][at].Config.Extension; x != nil {
						first = x.Source
					}
					field := fmt.Sprintf("spec.hosts[%d]", i)
					a.warnConflict(code.ConflictingMeshGatewayVirtualServiceHosts, vs.Config, first, field, fmt.Sprintf(
						"%s \"%s/%s\" has the host %q too and goes first: sidecars that see both use these rules only where none of its routes are for them",
						first.Kind, first.Namespace, first.Name, h))
				}
				before[h] = append(before[h], vs)
			}
		}
	}
}
