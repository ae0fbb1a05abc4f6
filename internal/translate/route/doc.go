// Package route makes RouteConfigurations: what RDS answers, and the inline ones of inbound listeners.
//
// In: a View and the name of a RouteConfiguration ("9080", "host:9080", "http_proxy"). Out: a [resource.Resource].
// Law: pure. Every VirtualHost is translated and encoded once for each distinct input, whichever View or change asks for
// it, and a RouteConfiguration is the concatenation of such pieces: an edit of one VirtualService among a thousand
// services costs one VirtualHost. Virtual hosts are sorted, no domain is there twice, and bytes are canonical.
//
// The way through the files, from the name to the bytes:
//
//	name.go             what a name asks for
//	scope.go            the services behind one outbound listener, indexed
//	rules.go            the VirtualServices there, in the order in which they are tried
//	plan.go             which virtual hosts there are, and by which rules each goes
//	plan_change.go      the same, from the plan before it
//	domain.go           the names that requests may use for a service, and who gets one that two claim
//	virtual_host.go     one virtual host, encoded
//	configuration.go    all of them, put together
//
// Gateways have RouteConfigurations of other names, and virtual hosts of their own making: gateway.go joins the VirtualServices that
// are bound to their servers, gateway_host.go encodes what comes of it.
//
// affected.go says which names a change has to do with. http_route.go begins the translation of an HTTPRoute; match.go, action.go, header.go, retry.go, fault.go, cors.go,
// mirror.go and hash.go are its parts, and uses.go is what it needs to know of a View. default.go has the routes that no
// VirtualService asks for, inbound ones too. unhonoured.go says what of a VirtualService is not in use.
//
// To add a field: translate it, show it in a case of testdata, and name the case in test/conformance/apicoverage/lines/VirtualService.txt.
//
// Start with [Generator] in generator.go.
package route
