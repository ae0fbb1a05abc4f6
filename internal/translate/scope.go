package translate

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// touchesInbound reports whether a change may alter the services of the View's own workload, their
// DestinationRules, its PeerAuthentications, or its Sidecar.
func touchesInbound(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.IsInboundAffectedBy(d)
}

// touchesServices reports whether a change may alter the View's services, their endpoints or their
// DestinationRules.
func touchesServices(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.AreServicesAffectedBy(d)
}

// clusterScope returns the part of the Key that outbound clusters depend on: the visible services
// and rules, and of the proxy its type, namespace, address families, socket mark, client
// credentials, file server and server of credentials. It also has the ProxyConfig fields that
// affect clusters, and the cluster features that the Envoy lacks.
func clusterScope(k view.Key) view.Key {
	return view.Key{
		AttachedObjects:      k.ObjectsFor(view.ClusterReader),
		Type:                 k.Type,
		Namespace:            k.Namespace,
		AddressFamilies:      k.AddressFamilies,
		Upstream:             k.Upstream,
		ProxyConfigOverrides: k.ClusterOverrides,
		MissingFeatures:      k.MissingFeatures & view.ClusterFeatures,
	}
}

// resolvedScope returns the part of the Key that clusters with embedded endpoints depend on:
// clusterScope, and where the proxy runs (locality, network, cluster, node, failover labels) and
// which networks it requests.
func resolvedScope(k view.Key) view.Key {
	scope := clusterScope(k)
	scope.Location = k.Location
	return scope
}

// sniDNATScope returns the part of the Key for the clusters to which a gateway forwards TLS by
// server name (AUTO_PASSTHROUGH) and datagrams: resolvedScope, and the gateway's servers. For
// proxies that are not gateways it is zero, so they share the empty output.
func sniDNATScope(k view.Key) view.Key {
	if k.Type != mesh.RouterProxy {
		return view.Key{}
	}
	scope := resolvedScope(k)
	scope.AttachedObjects, scope.Gateway = k.ObjectsFor(view.SNIDNATReader), k.Gateway
	return scope
}

// listenerScope returns the part of the Key that outbound listeners depend on. If an ingress
// listener is bound to an address of its own, it may conflict with an outbound one, so it returns
// the whole Key.
func listenerScope(k view.Key) view.Key {
	if k.HasBoundIngress {
		return k
	}
	return view.Key{
		AttachedObjects:      k.ObjectsFor(view.ListenerReader),
		Type:                 k.Type,
		Namespace:            k.Namespace,
		SourceSelectors:      k.SourceSelectors,
		AddressFamilies:      k.AddressFamilies,
		VirtualAddresses:     k.VirtualAddresses,
		Interception:         k.Interception,
		Unprivileged:         k.Unprivileged,
		Upstream:             view.Upstream{ClientCredentials: k.ClientCredentials},
		LogService:           k.LogService,
		OnDemand:             k.OnDemand,
		ProxyConfigOverrides: k.ProxyConfigOverrides,
		MissingFeatures:      k.MissingFeatures & view.ListenerFeatures,
	}
}

// gatewayScope returns the part of the Key that a gateway's listeners depend on: listenerScope, the
// Gateways that select it, its server credentials, whether it has a server of credentials, its
// service account, and policies. Of SecretAccess, only the value SecretsDenied is included. It is
// zero for other proxies, which share the empty output.
func gatewayScope(k view.Key) view.Key {
	if k.Type != mesh.RouterProxy {
		return view.Key{}
	}
	scope := listenerScope(k)
	scope.AttachedObjects = k.ObjectsFor(view.GatewayReader)
	scope.Gateway, scope.ServerCredentials, scope.PoliciesInside = k.Gateway, k.ServerCredentials, k.PoliciesInside
	scope.CredentialServer = k.CredentialServer
	scope.ServiceAccount = k.ServiceAccount
	if k.SecretAccess == view.SecretsDenied { // Other states of the secrets do not affect listeners.
		scope.SecretAccess = k.SecretAccess
	}
	return scope
}

// extensionScope returns the part of the Key that the extension configs of outbound listeners and
// of gateways depend on: listenerScope, the EnvoyFilter patches of listeners, and for gateways
// their servers, server credentials and policies. Unlike listenerScope, it ignores HasBoundIngress.
func extensionScope(k view.Key) view.Key {
	k.HasBoundIngress = false
	scope := listenerScope(k)
	if k.Type == mesh.RouterProxy {
		scope.AttachedObjects = k.ObjectsFor(view.GatewayReader)
		scope.Gateway, scope.ServerCredentials, scope.PoliciesInside = k.Gateway, k.ServerCredentials, k.PoliciesInside
	}
	scope.EnvoyFilterPatches.Listeners = k.EnvoyFilterPatches.Listeners
	return scope
}

// policyScope returns the part of the Key that the extension configs with policies depend on: the
// policies, and of clusterScope the fields that decide which providers of external authorization
// the proxy sees. It is zero without policies, so such Views share the empty output.
func policyScope(k view.Key) view.Key {
	if k.Policies == (snapshot.PolicyNames{}) {
		return view.Key{}
	}
	scope := clusterScope(k)
	scope.ProxyConfigOverrides, scope.ClusterOverrides, scope.FileServer, scope.MissingFeatures = "", "", "", 0
	scope.CredentialServer = false
	scope.AttachedObjects = k.ObjectsFor(view.PolicyReader)
	return scope
}

// endpointScope returns the part of the Key that load assignments depend on: the visible services
// and the proxy's location, but not its own services.
func endpointScope(k view.Key) view.Key {
	return view.Key{
		AttachedObjects: k.ObjectsFor(view.EndpointReader),
		Type:            k.Type,
		Namespace:       k.Namespace,
		Location:        k.Location,
		AddressFamilies: k.AddressFamilies,
	}
}

// localScope returns the part of the Key that the assignment of mesh.LocalCluster depends on: the
// proxy's workload and region.
func localScope(k view.Key) view.Key {
	region := mesh.Locality{Region: k.Locality.Region}
	return view.Key{SelfDiscovery: k.SelfDiscovery, Location: view.Location{Locality: region}}
}

// routeScope returns the part of the Key that outbound routes depend on: visible services and
// rules, type, namespace, DNS domain, gateway servers, address families, matching source selectors,
// which virtual addresses are used, and ProxyConfig overrides. The interception mode is included
// only if traffic is not captured (NONE).
func routeScope(k view.Key) view.Key {
	scope := view.Key{
		AttachedObjects:      k.ObjectsFor(view.RouteReader),
		Type:                 k.Type,
		Gateway:              k.Gateway,
		Namespace:            k.Namespace,
		Domain:               k.Domain,
		SourceSelectors:      k.SourceSelectors,
		AddressFamilies:      k.AddressFamilies,
		VirtualAddresses:     k.VirtualAddresses,
		ProxyConfigOverrides: k.ProxyConfigOverrides,
	}
	if view.IsDirect(k) {
		scope.Interception = k.Interception
	}
	return scope
}
