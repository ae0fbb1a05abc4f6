// Package route generates RouteConfigurations: the resources of RDS, and the inline ones of inbound
// listeners.
//
// The inputs are a View and the name of a RouteConfiguration ("9080", "host:9080", "http_proxy").
// The output is a [resource.Resource]. The functions are pure. Every VirtualHost is translated and
// encoded once for each distinct input, and a RouteConfiguration is the concatenation of encoded
// virtual hosts. So an edit of one VirtualService among a thousand services costs one VirtualHost.
// Virtual hosts are sorted, no domain occurs twice, and the encoding is canonical.
//
// The files in the order of processing, from the name to the bytes:
//
//	name.go             parse the name of a RouteConfiguration
//	scope.go            the services behind one outbound listener, indexed
//	rules.go            its VirtualServices, in the order of their precedence
//	plan.go             which virtual hosts exist, and the rules of each
//	plan_change.go      the same, derived from the previous plan
//	domain.go           the domains of a virtual host, and which one keeps a domain of two
//	virtual_host.go     encode one virtual host
//	configuration.go    concatenate them
//
// Gateways have RouteConfigurations with other names and virtual hosts: gateway.go merges the
// VirtualServices that are bound to their servers, and gateway_host.go encodes the result.
//
// File affected.go computes which names a change affects. File http_route.go starts the translation
// of an HTTPRoute; match.go, action.go, header.go, retry.go, fault.go, cors.go, mirror.go and
// hash.go translate its parts, and uses.go lists its inputs from a View. File default.go has the
// routes without a VirtualService, inbound ones too. File unhonoured.go reports settings of a
// VirtualService without effect.
//
// To add a field: translate it, show it in a case of testdata, and name the case in
// test/conformance/apicoverage/lines/VirtualService.txt.
//
// Start with [Generator] in generator.go.
package route
