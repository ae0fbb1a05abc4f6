package code

// firstEntries returns the entries of Istio's codes below IST0140.
//
//nolint:funlen // a table
func firstEntries() []Entry {
	return []Entry{
		{
			Code: InternalError, Name: "InternalError", Level: Error,
			Meaning: "An analysis failed. The messages may be incomplete.",
			Advice:  "Report the text of the message as a bug of meshpilot.",
		},
		{
			Code: Deprecated, Name: "Deprecated", Level: Warning,
			Meaning: "The object uses a field, value or provider that is deprecated. It still works.",
			Advice:  "Use the successor that the message names.",
		},
		{
			Code: ReferencedResourceNotFound, Name: "ReferencedResourceNotFound", Level: Error,
			Meaning: "The object refers to a host, port, subset, Gateway, Secret, namespace or workload that does not " +
				"exist. Traffic that is routed there fails, or the rule applies to nothing.",
			Advice: "Correct the name, or add the missing object. A name without a namespace refers to the namespace " +
				"of the object.",
		},
		{
			Code: NamespaceNotInjected, Name: "NamespaceNotInjected", Level: Info,
			Meaning: "Pods of the namespace get no sidecar.",
			Advice: "Add the label istio-injection=enabled, or istio.io/rev=REVISION; with istio-injection=disabled " +
				"the message disappears.",
		},
		{
			Code: PodMissingProxy, Name: "PodMissingProxy", Level: Warning,
			Meaning: "The pod is in a namespace with injection and has no container istio-proxy, so rules and mutual " +
				"TLS do not apply to it.",
			Advice: "Restart the pod so that it is injected.",
		},
		{
			Code: SchemaValidationError, Name: "SchemaValidationError", Level: Error,
			Meaning: "The object cannot be read, or a value of it is invalid. The object is not used, or its last " +
				"valid version stays in use.",
			Advice: "Correct the field that the message names.",
		},
		{
			Code: MisplacedAnnotation, Name: "MisplacedAnnotation", Level: Warning,
			Meaning: "The annotation has no effect on objects of this kind.",
			Advice: "Move it to an object of a kind that the message names. Annotations for sidecars belong to the " +
				"pod template of a Deployment.",
		},
		{
			Code: UnknownAnnotation, Name: "UnknownAnnotation", Level: Warning,
			Meaning: "The name of the annotation is in a domain of Istio and has no meaning there.",
			Advice:  "Check the spelling, or remove it.",
		},
		{
			Code: ConflictingMeshGatewayVirtualServiceHosts, Name: "ConflictingMeshGatewayVirtualServiceHosts",
			Level: Error,
			Meaning: "Several VirtualServices are for the same host in sidecars. Their routes are not merged there: " +
				"one of them takes precedence.",
			Advice: "Merge them into one VirtualService, or limit them with exportTo.",
		},
		{
			Code: ConflictingSidecarWorkloadSelectors, Name: "ConflictingSidecarWorkloadSelectors", Level: Error,
			Meaning: "Several Sidecars of a namespace select the same workload. Only the oldest applies to it.",
			Advice:  "Change the selectors so that each workload matches at most one Sidecar.",
		},
		{
			Code: MultipleSidecarsWithoutWorkloadSelectors, Name: "MultipleSidecarsWithoutWorkloadSelectors",
			Level:   Error,
			Meaning: "Several Sidecars of a namespace have no workload selector. Only the oldest is used.",
			Advice:  "Merge them, or add selectors.",
		},
		{
			Code: VirtualServiceDestinationPortSelectorRequired, Name: "VirtualServiceDestinationPortSelectorRequired",
			Level: Error,
			Meaning: "The destination has no port, and its service has several. The route cannot be assigned to one of " +
				"them.",
			Advice: "Set destination.port.number.",
		},
		{
			Code: DeploymentAssociatedToMultipleServices, Name: "DeploymentAssociatedToMultipleServices",
			Level: Warning,
			Meaning: "The pods of the Deployment belong to several Services that use one port with different " +
				"protocols. The proxy can serve only one protocol at a port.",
			Advice: "Use the same protocol in all of these Services, or different ports.",
		},
		{
			Code: PortNameIsNotUnderNamingConvention, Name: "PortNameIsNotUnderNamingConvention", Level: Info,
			Meaning: "The name of the port does not begin with a protocol, and appProtocol is not set. The protocol is " +
				"detected from traffic, which delays protocols in which the server speaks first.",
			Advice: "Name the port PROTOCOL or PROTOCOL-SUFFIX, such as http-web, or set appProtocol.",
		},
		{
			Code: NamespaceMultipleInjectionLabels, Name: "NamespaceMultipleInjectionLabels", Level: Warning,
			Meaning: "The namespace has labels of both forms, istio-injection and istio.io/rev. Only one of them takes " +
				"effect.",
			Advice: "Remove one of the labels.",
		},
		{
			Code: InvalidAnnotation, Name: "InvalidAnnotation", Level: Warning,
			Meaning: "The value of the annotation is invalid and is ignored.",
			Advice:  "Correct the value.",
		},
		{
			Code: UnknownMeshNetworksServiceRegistry, Name: "UnknownMeshNetworksServiceRegistry", Level: Error,
			Meaning: "MeshNetworks assigns a registry to a network that no known cluster has. The network has no " +
				"endpoints of it.",
			Advice: "Use the name of the cluster, as in its remote Secret.",
		},
		{
			Code: NoMatchingWorkloadsFound, Name: "NoMatchingWorkloadsFound", Level: Warning,
			Meaning: "The selector of the object matches no known workload, so the object applies to nothing.",
			Advice:  "Correct the labels, or remove the object.",
		},
		{
			Code: NoServerCertificateVerificationDestinationLevel,
			Name: "NoServerCertificateVerificationDestinationLevel", Level: Warning,
			Meaning: "The DestinationRule originates TLS without certificates to verify the server against. A man in " +
				"the middle is not noticed.",
			Advice: "Set caCertificates, or credentialName for gateways and selected workloads.",
		},
		{
			Code: NoServerCertificateVerificationPortLevel, Name: "NoServerCertificateVerificationPortLevel",
			Level: Warning,
			Meaning: "A port of the DestinationRule originates TLS without certificates to verify the server against. " +
				"A man in the middle is not noticed.",
			Advice: "Set caCertificates of the port.",
		},
		{
			Code: VirtualServiceUnreachableRule, Name: "VirtualServiceUnreachableRule", Level: Warning,
			Meaning: "The route is never used, because earlier routes handle all requests that it matches.",
			Advice:  "Move it before the other routes, or remove it.",
		},
		{
			Code: VirtualServiceIneffectiveMatch, Name: "VirtualServiceIneffectiveMatch", Level: Info,
			Meaning: "The match is never used, because an earlier route handles all requests that it matches, or it " +
				"names a gateway that is not one of the VirtualService.",
			Advice: "Remove the match, or change the order of the routes.",
		},
		{
			Code: VirtualServiceHostNotFoundInGateway, Name: "VirtualServiceHostNotFoundInGateway", Level: Warning,
			Meaning: "No server of the Gateway accepts a host of the VirtualService. Requests for it do not reach the " +
				"routes there.",
			Advice: "Add the host to a server of the Gateway, with a namespace prefix that includes the " +
				"VirtualService, or remove it from the VirtualService.",
		},
		{
			Code: SchemaWarning, Name: "SchemaWarning", Level: Warning,
			Meaning: "A value of the object is suspicious, or has no effect or another effect than it describes. The " +
				"object is used.",
			Advice: "Correct the field that the message names.",
		},
		{
			Code: ServiceEntryAddressesRequired, Name: "ServiceEntryAddressesRequired", Level: Warning,
			Meaning: "The ServiceEntry has a port whose protocol has no host name in it, and no addresses. Its traffic " +
				"cannot be told from other traffic to that port.",
			Advice: "Set addresses, or let addresses be allocated with the proxies' DNS.",
		},
		{
			Code: DeprecatedAnnotation, Name: "DeprecatedAnnotation", Level: Info,
			Meaning: "The annotation is deprecated. It still works.",
			Advice:  "Use its successor.",
		},
		{
			Code: AlphaAnnotation, Name: "AlphaAnnotation", Level: Info,
			Meaning: "The annotation is of a feature in the phase alpha, which may change.",
			Advice:  "Do not depend on it in production.",
		},
		{
			Code: DeploymentConflictingPorts, Name: "DeploymentConflictingPorts", Level: Warning,
			Meaning: "The pods of the Deployment belong to several Services that map different ports to one target " +
				"port.",
			Advice: "Use the same port in all of these Services.",
		},
		{
			Code: GatewayDuplicateCertificate, Name: "GatewayDuplicateCertificate", Level: Warning,
			Meaning: "Several Gateways of the same proxies use one certificate. A client that reuses an HTTP/2 " +
				"connection for another host may get 404.",
			Advice: "Use one Gateway for these hosts, or one certificate for each.",
		},
		{
			Code: InvalidWebhook, Name: "InvalidWebhook", Level: Error,
			Meaning: "The webhook refers to a Service that does not exist, or its selectors overlap with those of " +
				"another injection webhook. Pods are not created, or are injected twice.",
			Advice: "Correct the Service, or remove one of the webhooks, which may belong to a former revision.",
		},
	}
}
