package code

// ownEntries returns the entries of meshpilot's own codes.
//
//nolint:funlen // a table
func ownEntries() []Entry {
	return []Entry{
		{
			Code: FieldWithoutEffect, Name: "FieldWithoutEffect", Level: Warning,
			Meaning: "A field, or a value of it, has no effect or another effect than it describes with this control " +
				"plane or its proxies.",
			Advice: "Remove the field, or use what the message names. docs/api-coverage.md lists the support of each " +
				"field.",
		},
		{
			Code: OverriddenObject, Name: "OverriddenObject", Level: Warning,
			Meaning: "Another object takes precedence over this one, or over the named part of it.",
			Advice:  "Merge the two objects, or remove one.",
		},
		{
			Code: UnreachableGatewayMatch, Name: "UnreachableGatewayMatch", Level: Warning,
			Meaning: "A match names a gateway that the VirtualService does not have, so it never holds.",
			Advice:  "Add the gateway to spec.gateways, or remove it from the match.",
		},
		{
			Code: UnusedDelegate, Name: "UnusedDelegate", Level: Warning,
			Meaning: "A delegate does not exist, is invalid, or no VirtualService refers to it. Its routes are not " +
				"used.",
			Advice: "Correct the reference of the delegating VirtualService.",
		},
		{
			Code: IdentityBypass, Name: "IdentityBypass", Level: Warning,
			Meaning: "The policy matches identities, and callers without mutual TLS, who have none, bypass it.",
			Advice:  "Require STRICT mutual TLS, or require an identity in the policy.",
		},
		{
			Code: PolicyPortUnused, Name: "PolicyPortUnused", Level: Warning,
			Meaning: "The policy is limited to a port at which the selected gateway or workload gets no " +
				"connections of its Services. It matches none of them.",
			Advice: "Use the port of the Gateway's server or the target port of the Service, which is not always " +
				"that of the Service.",
		},
		{
			Code: InvalidMeshSetting, Name: "InvalidMeshSetting", Level: Warning,
			Meaning: "A part of the mesh configuration or the mesh networks has no effect.",
			Advice:  "Correct the setting that the message names.",
		},
		{
			Code: InvalidCredential, Name: "InvalidCredential", Level: Warning,
			Meaning: "A Secret or ConfigMap with certificates is invalid, expired or not yet valid.",
			Advice:  "Replace its content.",
		},
		{
			Code: RouteNotConverted, Name: "RouteNotConverted", Level: Warning,
			Meaning: "An object of Kubernetes or the Gateway API, or a part of it, cannot be converted for proxies.",
			Advice:  "Follow the text of the message. docs/GATEWAY-API.md lists what is supported.",
		},
		{
			Code: ServiceConflict, Name: "ServiceConflict", Level: Warning,
			Meaning: "Definitions of one service differ, and only one of them is used.",
			Advice:  "Define the service once, or with equal settings.",
		},
		{
			Code: ListenerConflict, Name: "ListenerConflict", Level: Warning,
			Meaning: "Two services or servers need the same address and port of a proxy. One of them is not served " +
				"there.",
			Advice: "Change an address or port, or limit the visibility with exportTo or a Sidecar.",
		},
		{
			Code: PatchFailed, Name: "PatchFailed", Level: Warning,
			Meaning: "A patch of an EnvoyFilter cannot be applied, matches nothing, or is withheld.",
			Advice:  "Correct the patch. pilotctl nacks shows the text of the proxies.",
		},
		{
			Code: UnreadableSource, Name: "UnreadableSource", Level: Warning,
			Meaning: "A file, API server or other source cannot be read. The last known objects stay in use.",
			Advice:  "Follow the text of the message.",
		},
		{
			Code: ProxyRejected, Name: "ProxyRejected", Level: Error,
			Meaning: "Proxies reject configuration that is generated from the object, which is withheld from other " +
				"proxies.",
			Advice: "pilotctl nacks shows the text of the proxies.",
		},
		{
			Code: DuplicateObject, Name: "DuplicateObject", Level: Error,
			Meaning: "Two documents have an object of the same kind, namespace and name. Only one of them is used.",
			Advice:  "Remove or rename one of them.",
		},
		{
			Code: ClientRefused, Name: "ClientRefused", Level: Error,
			Meaning: "An xDS client exceeds a limit on messages or names, so its streams end and it receives no " +
				"configuration.",
			Advice: "Raise the setting of the control plane that the message names, or limit what the proxy sees with a " +
				"Sidecar. A proxy that connects over TLS with a certificate may send larger messages.",
		},
		{
			Code: InvalidProxyMetadata, Name: "InvalidProxyMetadata", Level: Warning,
			Meaning: "A value in the metadata of proxies is not the duration, number, boolean or list that its key " +
				"requires, so it is treated as unset.",
			Advice: "Correct the variable ISTIO_META_KEY in the environment of the proxies' agents, or in proxyMetadata of " +
				"a ProxyConfig or MeshConfig.",
		},
	}
}
