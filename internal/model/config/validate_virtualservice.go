package config

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// meshGateway is the reserved gateway name that selects all sidecars.
const meshGateway = "mesh"

// checkVirtualService adds Errors for invalid parts of a VirtualService, and for one without any
// route, and Warnings for unreachable routes and parts without effect. A VirtualService without
// hosts is a delegate (VirtualService http[].delegate): its routes are used by other
// VirtualServices, and gateways, tls and tcp are Errors.
func (r *report) checkVirtualService(at path, vs *networking.VirtualService) {
	delegate := len(vs.GetHosts()) == 0
	toMesh := len(vs.GetGateways()) == 0
	for _, gateway := range vs.GetGateways() {
		toMesh = toMesh || gateway == meshGateway
	}
	r.checkVirtualServiceHosts(at.Child("hosts"), vs.GetHosts(), toMesh)
	r.checkGatewayNames(at.Child("gateways"), vs.GetGateways())
	if delegate {
		r.checkDelegateFields(at, vs)
	}
	if len(vs.GetHttp())+len(vs.GetTls())+len(vs.GetTcp()) == 0 {
		r.errorf(at, "one of http, tls and tcp is required")
	}
	toGateways := slices.ContainsFunc(vs.GetGateways(), func(name string) bool { return name != meshGateway })
	for i, route := range vs.GetHttp() {
		r.checkHTTPRoute(at.Child("http").Index(i), route, delegate)
		if !delegate && !toGateways {
			r.checkNoClaims(at.Child("http").Index(i).Child("match"), route.GetMatch())
		}
	}
	r.warnUnreachableHTTP(at.Child("http"), vs.GetHttp())
	for i, route := range vs.GetTls() {
		r.checkTLSRoute(at.Child("tls").Index(i), route, vs.GetHosts(), toMesh)
	}
	for i, route := range vs.GetTcp() {
		r.checkTCPRoute(at.Child("tcp").Index(i), route)
	}
	r.warnUnreachableTCP(at.Child("tcp"), vs.GetTcp())
	r.checkExportTo(at.Child("exportTo"), vs.GetExportTo(), false)
}

// checkNoClaims adds an Error for each match on a claim of a token, in headers or withoutHeaders.
// The caller calls it only for a VirtualService for the mesh alone: only gateways check tokens
// before they route.
func (r *report) checkNoClaims(at path, matches []*networking.HTTPMatchRequest) {
	for i, match := range matches {
		for _, list := range []struct {
			field   string
			headers map[string]*networking.StringMatch
		}{{"headers", match.GetHeaders()}, {"withoutHeaders", match.GetWithoutHeaders()}} {
			for _, name := range sortedKeys(list.headers) {
				if strings.HasPrefix(name, claimsPrefix) {
					r.errorf(at.Index(i).Child(list.field).Key(name),
						"claims of tokens can be matched at gateways only, and spec.gateways names none")
				}
			}
		}
	}
}

// checkDelegateFields adds Errors if gateways, tls or tcp is set. A delegate must leave them to the
// VirtualService that refers to it.
func (r *report) checkDelegateFields(at path, vs *networking.VirtualService) {
	const reason = "must not be set without hosts: a VirtualService without hosts is a delegate and has HTTP routes only"
	if len(vs.GetGateways()) > 0 {
		r.errorf(at.Child("gateways"), reason)
	}
	if len(vs.GetTls()) > 0 {
		r.errorf(at.Child("tls"), reason)
	}
	if len(vs.GetTcp()) > 0 {
		r.errorf(at.Child("tcp"), reason)
	}
}

// checkVirtualServiceHosts adds Errors for invalid hosts or, if all are valid, for hosts that
// overlap with an earlier one. toMesh is set if the VirtualService applies to the mesh, for which
// "*" and server names of mutual TLS (serverNameFault) are invalid. A host may be an IP address. No
// hosts are valid.
func (r *report) checkVirtualServiceHosts(at path, hosts []string, toMesh bool) {
	allValid := true
	for i, host := range hosts {
		fault := serverNameFault(host, toMesh)
		if fault != "" && ipFault(host) == "" {
			fault = ""
		}
		if host == "*" && toMesh {
			fault = "\"*\" is allowed only for gateways, not for the mesh"
		}
		r.addFault(at.Index(i), fault)
		allValid = allValid && fault == ""
	}
	if !allValid {
		return
	}
	for i, host := range hosts {
		for _, before := range hosts[:i] {
			if hostsOverlap(before, host) {
				r.errorf(at.Index(i), "%q overlaps with %q of the same VirtualService", host, before)
			}
		}
	}
}

// checkGatewayNames adds Errors for invalid references to gateways, which are "name" or
// "namespace/name". The old form with dots is a Warning.
func (r *report) checkGatewayNames(at path, names []string) {
	for i, name := range names {
		namespace, gateway, qualified := strings.Cut(name, "/")
		if !qualified {
			gateway = name
		}
		switch {
		case qualified && len(validation.IsDNS1123Label(namespace)) > 0:
			r.errorf(at.Index(i), "%q: %q is not a namespace's name", name, namespace)
		case !qualified && strings.Contains(gateway, ".") && domainFault(gateway) == "":
			r.warnf(at.Index(i), "%q: names with dots are an old form, write namespace/name", name)
		case len(validation.IsDNS1123Label(gateway)) > 0:
			r.errorf(at.Index(i),
				"%q is not a gateway's name: it must be name, namespace/name or %q", name,
				meshGateway)
		}
	}
}
