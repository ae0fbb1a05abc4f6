package view

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Reader identifies generators whose output depends on the same kinds of attached objects.
// Constants can be combined with |.
type Reader uint16

// The generators that read attached objects.
const (
	ServiceReader     Reader = 1 << iota // which services a proxy sees: name tables, gRPC clients
	ClusterReader                        // outbound clusters
	SNIDNATReader                        // clusters to which gateways forward TLS by server name
	EndpointReader                       // load assignments
	RouteReader                          // RouteConfigurations
	ListenerReader                       // outbound listeners, and their extension configs
	GatewayReader                        // listeners of gateways, and their extension configs
	PolicyReader                         // extension configs of access policies
	PluginReader                         // extension configs of plugins
	ApplicationReader                    // listeners of gRPC servers
	SecretReader                         // which Secrets a proxy may receive

	serviceReaders = ServiceReader | destinationReaders | SecretReader
	// destinationReaders are the generators that follow a call to its destination.
	destinationReaders = ClusterReader | SNIDNATReader | EndpointReader | RouteReader | listenerReaders |
		PolicyReader | ApplicationReader
	listenerReaders = ListenerReader | GatewayReader
)

// proxySet is a set of proxies.
type proxySet uint8

const (
	sidecars proxySet = 1 << iota
	routers
	// tlsServers are the sidecars, except gRPC applications without a certificate for connections
	// from others.
	tlsServers
	allProxies = sidecars | routers
)

// keyReach is the set of proxies whose Key an edit of an object may change.
type keyReach uint8

const (
	// namespaceReach contains the proxies of the object's namespace, or all proxies if that is the
	// root namespace.
	namespaceReach keyReach = iota
	// selectorReach contains the proxies of the object's namespace if the edit changes the
	// workloadSelectors there.
	selectorReach
	// routerReach contains all routers.
	routerReach
)

// attachedKind is the row of one kind of attached objects.
type attachedKind struct {
	kind api.Kind
	// proxies are those to which objects of the kind apply. The Key of others has none.
	proxies proxySet
	// envoyOnly is set if objects of the kind do not apply to gRPC applications without an Envoy.
	envoyOnly bool
	// reach contains the proxies whose Key an edit may change.
	reach keyReach
	// readers are the generators whose output depends on which objects are attached.
	readers Reader
	// attach returns a with the objects of the kind that apply to a proxy.
	attach func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects
	// copy returns to with the objects of the kind in from.
	copy func(to, from AttachedObjects) AttachedObjects
	// affects reports whether an edit of an object of the kind may alter the View of proxies to
	// which a is attached.
	affects func(a *AttachedObjects, object config.Key) bool
}

// attachedKinds returns the table of the kinds of attached objects, from which derive
//
//   - KeyFor: which objects are attached to a proxy (proxies, envoyOnly, attach),
//   - KeyChangeFilter: the proxies whose Key an edit may change (reach),
//   - Key.ObjectsFor: the part of the Key that a generator reads (readers, copy),
//   - View.IsAffectedByConfig and View.IsAnyAttachedChanged: the Views that an edit alters (affects).
//
// attach and copy receive AttachedObjects by value: a pointer to them would be allocated on the
// heap in each call of KeyFor.
var attachedKinds = sync.OnceValue(func() []attachedKind {
	return []attachedKind{
		sidecarRow(), destinationRuleRow(), gatewayRow(), envoyFilterRow(), telemetryRow(), peerAuthenticationRow(),
		authorizationPolicyRow(), requestAuthenticationRow(), wasmPluginRow(), trafficExtensionRow(),
	}
})

// sidecarRow returns the row of Sidecars. At most one is attached to a sidecar proxy (sidecarFor),
// none to routers. Edits reach the Keys of the proxies in its namespace, or of all proxies for the
// root namespace, and affect the Views to which the Sidecar is attached. All generators that depend
// on services or Secrets read it (serviceReaders).
func sidecarRow() attachedKind {
	return attachedKind{
		kind: api.Sidecar, proxies: sidecars, reach: namespaceReach, readers: serviceReaders,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			if sc := sidecarFor(s, p.Namespace, p.Labels); sc != nil {
				a.Sidecar = sc.Key
			}
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Sidecar = from.Sidecar
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Sidecar == k },
	}
}

// destinationRuleRow returns the row of DestinationRules. Only rules with a workloadSelector are
// attached, to all types of proxies, and read by generators that follow a call to its destination.
// An edit reaches the Keys of the proxies in its namespace if it changes the workloadSelectors
// there, and may affect every View.
func destinationRuleRow() attachedKind {
	return attachedKind{
		kind: api.DestinationRule, proxies: allProxies, reach: selectorReach, readers: destinationReaders,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.DestinationRules = s.RuleNames(p.Namespace, p.Labels)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.DestinationRules = from.DestinationRules
			return to
		},
		// A rule without a workloadSelector is not in the Key, and affects all proxies that see its
		// host.
		affects: func(*AttachedObjects, config.Key) bool { return true },
	}
}

// gatewayRow returns the row of Gateways. They are attached to the routers that they select, and
// read by the generators of gateways' listeners, routes, SNI-DNAT clusters and Secrets. Edits reach
// the Keys of all routers, and affect the Views to which the Gateway is attached.
func gatewayRow() attachedKind {
	return attachedKind{
		kind: api.Gateway, proxies: routers, reach: routerReach,
		readers: GatewayReader | SNIDNATReader | RouteReader | SecretReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Gateways = s.GatewayNames(p.Namespace, p.Labels)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Gateways = from.Gateways
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Gateways.Has(k) },
	}
}

// envoyFilterRow returns the row of EnvoyFilters. They are attached to all proxies but gRPC
// applications without an Envoy. Edits reach the Keys of the proxies in its namespace, or of all
// for the root namespace. It has no readers: the wrappers that apply patches add the list of
// patches of their type to the scope of the generators that they wrap.
func envoyFilterRow() attachedKind {
	return attachedKind{
		kind: api.EnvoyFilter, proxies: allProxies, envoyOnly: true, reach: namespaceReach,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.EnvoyFilterPatches = s.PatchNames(p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.EnvoyFilterPatches = from.EnvoyFilterPatches
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.EnvoyFilterPatches.Has(k) },
	}
}

// telemetryRow returns the row of Telemetry objects. They are attached to all proxies but gRPC
// applications without an Envoy, and read by the generators of outbound and gateways' listeners.
// Edits reach the Keys of the proxies in its namespace, or of all for the root namespace.
func telemetryRow() attachedKind {
	return attachedKind{
		kind: api.Telemetry, proxies: allProxies, envoyOnly: true, reach: namespaceReach, readers: listenerReaders,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Telemetry = s.TelemetryKeys(p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Telemetry = from.Telemetry
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Telemetry.Has(k) },
	}
}

// peerAuthenticationRow returns the row of PeerAuthentications. They are attached to sidecars, also
// to those without a certificate, which refuse all connections in the mode STRICT. Their only
// reader in the table is the generator of gRPC servers. Edits reach the Keys of the proxies in its
// namespace, or of all for the root namespace.
func peerAuthenticationRow() attachedKind {
	return attachedKind{
		kind: api.PeerAuthentication, proxies: tlsServers, reach: namespaceReach, readers: ApplicationReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.PeerAuthentications = s.Peers(p.Namespace, p.Labels)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.PeerAuthentications = from.PeerAuthentications
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.PeerAuthentications.Has(k) },
	}
}

// authorizationPolicyRow returns the row of AuthorizationPolicies. They are attached to all
// proxies, and read by the generators of gateways, access policies and gRPC servers. Edits reach
// the Keys of the proxies in its namespace, or of all for the root namespace.
func authorizationPolicyRow() attachedKind {
	return attachedKind{
		kind: api.AuthorizationPolicy, proxies: allProxies, reach: namespaceReach,
		readers: GatewayReader | PolicyReader | ApplicationReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Policies.Authorization = s.AttachedNames(api.AuthorizationPolicy, p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Policies.Authorization = from.Policies.Authorization
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Policies.Has(k) },
	}
}

// requestAuthenticationRow returns the row of RequestAuthentications. They are attached to all
// proxies, and read by the generators of gateways, access policies and gRPC servers. Edits reach
// the Keys of the proxies in its namespace, or of all for the root namespace.
func requestAuthenticationRow() attachedKind {
	return attachedKind{
		kind: api.RequestAuthentication, proxies: allProxies, reach: namespaceReach,
		readers: GatewayReader | PolicyReader | ApplicationReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Policies.Authentication = s.AttachedNames(api.RequestAuthentication, p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Policies.Authentication = from.Policies.Authentication
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Policies.Has(k) },
	}
}

// wasmPluginRow returns the row of WasmPlugins. They are attached to all proxies but gRPC
// applications without an Envoy, and read by the generators of listeners and plugins. Edits reach
// the Keys of the proxies in its namespace, or of all for the root namespace.
func wasmPluginRow() attachedKind {
	return attachedKind{
		kind: api.WasmPlugin, proxies: allProxies, envoyOnly: true, reach: namespaceReach,
		readers: listenerReaders | PluginReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Plugins.Wasm = s.AttachedNames(api.WasmPlugin, p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Plugins.Wasm = from.Plugins.Wasm
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Plugins.Has(k) },
	}
}

// trafficExtensionRow returns the row of TrafficExtensions. They are attached to all proxies but
// gRPC applications without an Envoy, and read by the generators of listeners and plugins. Edits
// reach the Keys of the proxies in its namespace, or of all for the root namespace.
func trafficExtensionRow() attachedKind {
	return attachedKind{
		kind: api.TrafficExtension, proxies: allProxies, envoyOnly: true, reach: namespaceReach,
		readers: listenerReaders | PluginReader,
		attach: func(a AttachedObjects, s *snapshot.Snapshot, p snapshot.ProxyAttributes) AttachedObjects {
			a.Plugins.Traffic = s.AttachedNames(api.TrafficExtension, p)
			return a
		},
		copy: func(to, from AttachedObjects) AttachedObjects {
			to.Plugins.Traffic = from.Plugins.Traffic
			return to
		},
		affects: func(a *AttachedObjects, k config.Key) bool { return a.Plugins.Has(k) },
	}
}
