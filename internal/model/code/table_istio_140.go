package code

// secondEntries returns the entries of Istio's codes from IST0140.
//
//nolint:funlen // a table
func secondEntries() []Entry {
	return []Entry{
		{
			Code: IngressRouteRulesNotAffected, Name: "IngressRouteRulesNotAffected", Level: Warning,
			Meaning: "The VirtualService has a subset at an ingress gateway for a host of the mesh. Routes of the mesh " +
				"for the host do not apply to requests that the gateway forwards.",
			Advice: "Put the routes for requests of the gateway into a VirtualService of the gateway.",
		},
		{
			Code: InvalidApplicationUID, Name: "InvalidApplicationUID", Level: Warning,
			Meaning: "A container of the application runs as user 1337, the user of the proxy. Its traffic bypasses " +
				"the proxy.",
			Advice: "Use another user.",
		},
		{
			Code: ConflictingGateways, Name: "ConflictingGateways", Level: Error,
			Meaning: "Gateways of the same proxies have a server with the same port and host. Only one of the servers " +
				"is used.",
			Advice: "Merge the servers, or change a host or port.",
		},
		{
			Code: ImageAutoWithoutInjectionWarning, Name: "ImageAutoWithoutInjectionWarning", Level: Warning,
			Meaning: "The template has the image \"auto\" and no injection webhook selects its pods. Their containers " +
				"cannot start.",
			Advice: "Label the namespace or the pod template for injection.",
		},
		{
			Code: ImageAutoWithoutInjectionError, Name: "ImageAutoWithoutInjectionError", Level: Error,
			Meaning: "The pod has the image \"auto\" and no injection webhook selects it. Its container cannot start.",
			Advice:  "Label the namespace or the pod for injection.",
		},
		{
			Code: NamespaceInjectionEnabledByDefault, Name: "NamespaceInjectionEnabledByDefault", Level: Info,
			Meaning: "The namespace has no label for injection and its pods get sidecars, because " +
				"enableNamespacesByDefault is set.",
			Advice: "Label the namespace explicitly.",
		},
		{
			Code: JwtClaimBasedRoutingWithoutRequestAuthN, Name: "JwtClaimBasedRoutingWithoutRequestAuthN",
			Level: Error,
			Meaning: "The VirtualService routes by claims of a token, and no RequestAuthentication applies to the " +
				"proxies of its Gateway. The match never holds.",
			Advice: "Add a RequestAuthentication that selects the gateway.",
		},
		{
			Code: ExternalNameServiceTypeInvalidPortName, Name: "ExternalNameServiceTypeInvalidPortName",
			Level: Warning,
			Meaning: "A port of a Service of the type ExternalName is a TCP port, or has no protocol. Proxies may send " +
				"all traffic for that port to it.",
			Advice: "Name the port after an HTTP or TLS protocol, such as https.",
		},
		{
			Code: EnvoyFilterUsesRelativeOperation, Name: "EnvoyFilterUsesRelativeOperation", Level: Warning,
			Meaning: "The EnvoyFilter has no priority and patches relative to other filters. It has no effect if the " +
				"other filter is added later.",
			Advice: "Set spec.priority, or use INSERT_FIRST or ADD.",
		},
		{
			Code: EnvoyFilterUsesReplaceOperationIncorrectly, Name: "EnvoyFilterUsesReplaceOperationIncorrectly",
			Level:   Error,
			Meaning: "REPLACE has no effect on this object. It applies only to HTTP_FILTER and NETWORK_FILTER.",
			Advice:  "Use MERGE, or REMOVE and ADD.",
		},
		{
			Code: EnvoyFilterUsesAddOperationIncorrectly, Name: "EnvoyFilterUsesAddOperationIncorrectly", Level: Error,
			Meaning: "ADD has no effect on a ROUTE_CONFIGURATION or HTTP_ROUTE.",
			Advice:  "Use MERGE, or INSERT_FIRST for a route.",
		},
		{
			Code: EnvoyFilterUsesRemoveOperationIncorrectly, Name: "EnvoyFilterUsesRemoveOperationIncorrectly",
			Level:   Error,
			Meaning: "REMOVE has no effect on a ROUTE_CONFIGURATION or HTTP_ROUTE.",
			Advice:  "Change the VirtualService from which the route is generated.",
		},
		{
			Code: EnvoyFilterUsesRelativeOperationWithProxyVersion,
			Name: "EnvoyFilterUsesRelativeOperationWithProxyVersion", Level: Warning,
			Meaning: "The EnvoyFilter has no priority, patches relative to other filters and is limited to proxy " +
				"versions. It may stop to have an effect during an upgrade.",
			Advice: "Set spec.priority, or use INSERT_FIRST or ADD.",
		},
		{
			Code: InvalidTelemetryProvider, Name: "InvalidTelemetryProvider", Level: Warning,
			Meaning: "The Telemetry names no provider, and the mesh configuration has no default. The setting is " +
				"ignored.",
			Advice: "Name a provider, or set defaultProviders.",
		},
		{
			Code: PodsIstioProxyImageMismatchInNamespace, Name: "PodsIstioProxyImageMismatchInNamespace",
			Level: Warning,
			Meaning: "Pods of the namespace run another image of the proxy than injection uses now, often that of a " +
				"former version.",
			Advice: "Restart the pods.",
		},
		{
			Code: ConflictingTelemetryWorkloadSelectors, Name: "ConflictingTelemetryWorkloadSelectors", Level: Error,
			Meaning: "Several Telemetries of a namespace select the same workload. All apply to it; newer ones override " +
				"fields of older ones.",
			Advice: "Change the selectors so that each workload matches at most one Telemetry, or set different fields.",
		},
		{
			Code: MultipleTelemetriesWithoutWorkloadSelectors, Name: "MultipleTelemetriesWithoutWorkloadSelectors",
			Level:   Error,
			Meaning: "Several Telemetries of a namespace have no workload selector. Only the oldest is used.",
			Advice:  "Merge them, or add selectors.",
		},
		{
			Code: InvalidGatewayCredential, Name: "InvalidGatewayCredential", Level: Error,
			Meaning: "The Secret that a Gateway refers to has no valid certificate and key. Connections to the server " +
				"fail.",
			Advice: "Replace the content of the Secret.",
		},
		{
			Code: GatewayPortNotDefinedOnService, Name: "GatewayPortNotDefinedOnService", Level: Warning,
			Meaning: "A server of the Gateway listens at a port that no Service of its proxies has. Clients cannot " +
				"reach it through the Service.",
			Advice: "Add the port to the Service of the gateway.",
		},
		{
			Code: InvalidExternalControlPlaneConfig, Name: "InvalidExternalControlPlaneConfig", Level: Warning,
			Meaning: "The webhook of an external control plane has no URL with a host, or the host does not resolve. " +
				"Its requests fail.",
			Advice: "Set clientConfig.url to the address of the external control plane.",
		},
		{
			Code: ExternalControlPlaneAddressIsNotAHostname, Name: "ExternalControlPlaneAddressIsNotAHostname",
			Level:   Info,
			Meaning: "The webhook of an external control plane has an IP address in its URL.",
			Advice:  "Use a host name, so that the address can change.",
		},
		{
			Code: ReferencedInternalGateway, Name: "ReferencedInternalGateway", Level: Warning,
			Meaning: "The VirtualService refers to a Gateway that is generated from a Gateway of the Gateway API. Its " +
				"name may change.",
			Advice: "Attach an HTTPRoute to the Gateway of the Gateway API.",
		},
		{
			Code: IneffectiveSelector, Name: "IneffectiveSelector", Level: Warning,
			Meaning: "The selector of the policy matches the proxies of a Gateway of the Gateway API. It applies to " +
				"them, but not at an istiod with ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY=false.",
			Advice: "Refer to the Gateway with targetRefs.",
		},
		{
			Code: IneffectivePolicy, Name: "IneffectivePolicy", Level: Warning,
			Meaning: "The policy has no effect where it is.",
			Advice:  "Follow the text of the message.",
		},
		{
			Code: NegativeConditionStatus, Name: "NegativeConditionStatus", Level: Warning,
			Meaning: "A controller reports with a condition of the object that it is not accepted or not in effect.",
			Advice:  "Follow the reason and message of the condition.",
		},
		{
			Code: DestinationRuleSubsetNotSelectPods, Name: "DestinationRuleSubsetNotSelectPods", Level: Error,
			Meaning: "No pod of the service has the labels of the subset. Requests that are routed to it get 503.",
			Advice:  "Correct the labels of the subset or of the pods.",
		},
		{
			Code: UnknownDestinationRuleHost, Name: "UnknownDestinationRuleHost", Level: Warning,
			Meaning: "No service has the host of the DestinationRule, so the rule applies to nothing.",
			Advice:  "Correct the host. A short name refers to the namespace of the DestinationRule.",
		},
		{
			Code: JwksUriFetchUnrestricted, Name: "JwksUriFetchUnrestricted", Level: Warning,
			Meaning: "RequestAuthentications name addresses that the control plane fetches keys from, and " +
				"BLOCKED_CIDRS_IN_JWKS_URIS does not restrict them. Authors of these objects can make it call " +
				"internal addresses.",
			Advice: "Set BLOCKED_CIDRS_IN_JWKS_URIS of the control plane.",
		},
		{
			Code: GatewayAPICRDVersionBelowMinimum, Name: "GatewayAPICRDVersionBelowMinimum", Level: Warning,
			Meaning: "The definition of a kind of the Gateway API is older than the control plane requires. Objects of " +
				"the kind are not used.",
			Advice: "Install the definitions of the version that the message names.",
		},
		{
			Code: ConflictingServiceEntryProtocol, Name: "ConflictingServiceEntryProtocol", Level: Warning,
			Meaning: "Several ServiceEntries that are visible together have the same host and port with different " +
				"protocols. One of the protocols is used.",
			Advice: "Use the same protocol in all of them, or limit them with exportTo.",
		},
	}
}
