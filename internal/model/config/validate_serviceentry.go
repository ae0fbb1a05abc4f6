package config

import (
	"slices"
	"strings"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"
)

// checkServiceEntry adds Errors for missing or invalid hosts ("*" is invalid), addresses, ports and
// exportTo, and for more than 256 hosts or 4096 endpoints. Endpoints that the resolution does not
// permit, and endpoints beside workloadSelector, are Errors too. Parts without effect are Warnings,
// such as an empty name in subjectAltNames.
func (r *report) checkServiceEntry(at path, entry *networking.ServiceEntry) {
	hosts := at.Child("hosts")
	if len(entry.GetHosts()) == 0 {
		r.errorf(hosts, "at least one host is required")
	}
	r.checkMaxItems(hosts, len(entry.GetHosts()), 256)
	for i, host := range entry.GetHosts() {
		fault := wildcardFault(host)
		if host == "*" {
			fault = "\"*\" is too wide: the host of a service must not be a bare wildcard"
		}
		r.addFault(hosts.Index(i), fault)
	}
	r.checkServiceAddresses(at.Child("addresses"), entry)
	ports := r.checkServicePorts(at.Child("ports"), entry)
	r.checkMaxItems(at.Child("endpoints"), len(entry.GetEndpoints()), 4096)
	if selector := entry.GetWorkloadSelector(); selector != nil {
		r.checkMatchLabels(at.Child("workloadSelector", "labels"), selector.GetLabels(), true)
		if len(entry.GetEndpoints()) > 0 {
			r.errorf(at.Child("workloadSelector"), "must not be set together with endpoints")
		}
		if entry.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS {
			r.warnf(at.Child("workloadSelector"), "has no effect with resolution DYNAMIC_DNS")
		}
	}
	r.checkResolution(at, entry, ports)
	for i, name := range entry.GetSubjectAltNames() {
		if name == "" {
			r.warnf(at.Child("subjectAltNames").Index(i), "the empty name matches no certificate")
		}
	}
	r.checkExportTo(at.Child("exportTo"), entry.GetExportTo(), true)
}

// checkServiceAddresses adds an Error for each address that is neither an IP address nor a CIDR
// block, and for more than 256. CIDR blocks are valid only with the resolutions NONE and STATIC.
func (r *report) checkServiceAddresses(at path, entry *networking.ServiceEntry) {
	r.checkMaxItems(at, len(entry.GetAddresses()), 256)
	resolution := entry.GetResolution()
	blocks := resolution == networking.ServiceEntry_NONE || resolution == networking.ServiceEntry_STATIC
	for i, address := range entry.GetAddresses() {
		fault := subnetFault(address)
		if fault == "" && strings.Contains(address, "/") && !blocks {
			fault = "CIDR blocks are allowed only with resolution NONE or STATIC"
		}
		r.addFault(at.Index(i), fault)
	}
}

// checkServicePorts adds Errors for invalid ports, duplicate names or numbers, and more than 256
// ports. It returns the set of all port names, to which endpoints refer. No ports, a targetPort
// without effect, and a TCP port without an address (warnTCPWithoutAddress) are Warnings.
func (r *report) checkServicePorts(at path, entry *networking.ServiceEntry) map[string]bool {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	r.checkMaxItems(at, len(entry.GetPorts()), 256)
	if len(entry.GetPorts()) == 0 {
		r.warnf(at, "is empty, so nothing is routed to the service")
	}
	for i, port := range entry.GetPorts() {
		here := at.Index(i)
		r.checkPortNumber(here.Child("number"), port.GetNumber())
		r.checkProtocol(here.Child("protocol"), port.GetProtocol())
		r.checkPortName(here.Child("name"), port.GetName())
		r.checkOptionalPort(here.Child("targetPort"), port.GetTargetPort())
		if port.GetTargetPort() != 0 && entry.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS &&
			isHTTP(port.GetProtocol()) {
			r.warnf(here.Child("targetPort"),
				"has no effect on requests with resolution DYNAMIC_DNS, which go to the port of their host")
		}
		if names[port.GetName()] {
			r.errorf(here.Child("name"), "port name %q is there twice", port.GetName())
		}
		if numbers[port.GetNumber()] {
			r.errorf(here.Child("number"), "port %d is there twice", port.GetNumber())
		}
		names[port.GetName()], numbers[port.GetNumber()] = true, true
		r.warnTCPWithoutAddress(here, entry, port)
	}
	return names
}

// warnTCPWithoutAddress adds a Warning for a TCP port, or one without protocol, of a service
// without addresses. It does so only for resolution NONE, or if the label
// networking.istio.io/enable-autoallocate-ip is "false". Proxies then identify its connections only
// by the port number, so it also matches connections of other destinations.
func (r *report) warnTCPWithoutAddress(at path, entry *networking.ServiceEntry, port *networking.ServicePort) {
	tcp := port.GetProtocol() == "" || strings.EqualFold(port.GetProtocol(), "TCP")
	refused := strings.EqualFold(r.object.Labels[label.NetworkingEnableAutoallocateIp.Name], "false")
	switch {
	case !tcp || len(entry.GetAddresses()) > 0:
	case entry.GetResolution() == networking.ServiceEntry_NONE:
		r.warnf(at,
			"a TCP port without addresses and with resolution NONE matches every connection to port %d, to any address",
			port.GetNumber())
	case refused:
		r.warnf(
			at,
			"a TCP port without addresses, of which the object wants none, is distinguished from others only by its number %d alone",
			port.GetNumber(),
		)
	}
}

// checkResolution adds Errors for hosts and endpoints that the resolution does not permit, and for
// an unknown resolution. NONE permits no endpoints; the checks of other resolutions also add
// Warnings. ports are the names of the service's ports.
func (r *report) checkResolution(at path, entry *networking.ServiceEntry, ports map[string]bool) {
	endpoints := at.Child("endpoints")
	switch entry.GetResolution() {
	case networking.ServiceEntry_NONE:
		if len(entry.GetEndpoints()) > 0 {
			r.errorf(endpoints, "must not be set with resolution NONE, which uses the address that the caller chose")
		}
	case networking.ServiceEntry_STATIC:
		r.checkStaticEndpoints(endpoints, entry, ports)
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		r.checkDNSEndpoints(at, entry, ports)
	case networking.ServiceEntry_DYNAMIC_DNS:
		r.checkDynamicDNS(at, entry)
	default:
		r.errorf(at.Child("resolution"), "unknown resolution %d", entry.GetResolution())
	}
}

// checkStaticEndpoints adds Errors for the endpoints of resolution STATIC, whose addresses must be
// IP addresses or sockets; an empty one is left to checkEndpointDetails. Sockets require that the
// ServiceEntry has exactly one port. No endpoints and no selector is a Warning. ports are the names
// of the service's ports.
func (r *report) checkStaticEndpoints(at path, entry *networking.ServiceEntry, ports map[string]bool) {
	if len(entry.GetEndpoints()) == 0 && entry.GetWorkloadSelector() == nil {
		r.warnf(at, "resolution STATIC without endpoints or workloadSelector: the service has nowhere to send requests")
	}
	unix := false
	for i, endpoint := range entry.GetEndpoints() {
		here := at.Index(i)
		address := endpoint.GetAddress()
		r.checkEndpointDetails(here, endpoint)
		r.checkEndpointPorts(here.Child("ports"), endpoint, ports)
		if IsSocket(address) {
			unix = true
		} else if address != "" && ipFault(address) != "" {
			r.errorf(here.Child("address"), "%q must be an IP address with resolution STATIC", address)
		}
	}
	if unix && len(entry.GetPorts()) != 1 {
		r.errorf(at,
			"endpoints on Unix domain sockets need exactly one port in spec.ports, found %d",
			len(entry.GetPorts()))
	}
}

// checkDNSEndpoints adds Errors for the hosts and endpoints of a resolution by DNS. Wildcards other
// than "*" are refused without endpoints and selector, as are sockets, invalid addresses, and
// several endpoints for round robin. An endpoint without an address is an Error if it has a
// network, otherwise checkEndpointDetails reports it. ports are the names of the service's ports;
// warnHostsOfOneAddress adds a Warning.
func (r *report) checkDNSEndpoints(at path, entry *networking.ServiceEntry, ports map[string]bool) {
	resolution := entry.GetResolution().String()
	endpoints := at.Child("endpoints")
	if len(entry.GetEndpoints()) == 0 && entry.GetWorkloadSelector() == nil {
		for i, host := range entry.GetHosts() {
			if strings.HasPrefix(host, "*") && host != "*" {
				r.errorf(at.Child("hosts").Index(i),
					"wildcard %q cannot be resolved: resolution %s needs endpoints", host,
					resolution)
			}
		}
	}
	if entry.GetResolution() == networking.ServiceEntry_DNS_ROUND_ROBIN && len(entry.GetEndpoints()) > 1 {
		r.errorf(endpoints, "resolution %s allows one endpoint, found %d", resolution, len(entry.GetEndpoints()))
	}
	for i, endpoint := range entry.GetEndpoints() {
		here := endpoints.Index(i)
		if IsSocket(endpoint.GetAddress()) {
			r.errorf(here.Child("address"), "Unix domain sockets are not allowed with resolution %s", resolution)
			continue
		}
		r.checkEndpointDetails(here, endpoint)
		r.checkEndpointPorts(here.Child("ports"), endpoint, ports)
		if address := endpoint.GetAddress(); address != "" {
			r.addFault(here.Child("address"), hostOrIPFault(address))
		} else if endpoint.GetNetwork() != "" {
			r.errorf(here.Child("address"),
				"is required with resolution %s: gateways of a network are not resolved by DNS",
				resolution)
		}
	}
	r.warnHostsOfOneAddress(at, entry)
}

// warnHostsOfOneAddress adds a Warning if an entry has several hosts, an address and a TCP port,
// because proxies cannot distinguish the hosts' connections. A port without a protocol is also TCP.
func (r *report) warnHostsOfOneAddress(at path, entry *networking.ServiceEntry) {
	tcp := func(p *networking.ServicePort) bool {
		return p.GetProtocol() == "" || strings.EqualFold(p.GetProtocol(), "TCP")
	}
	if len(entry.GetHosts()) > 1 && len(entry.GetAddresses()) > 0 && slices.ContainsFunc(entry.GetPorts(), tcp) {
		r.warnf(at.Child("addresses"),
			"all hosts have the same addresses: connections to TCP ports go to the first of them")
	}
}

// checkDynamicDNS adds Errors for an entry with resolution DYNAMIC_DNS, where proxies resolve the
// host of each request. Its hosts must be wildcards, its ports HTTP or TLS, and it must not have
// addresses or endpoints.
func (r *report) checkDynamicDNS(at path, entry *networking.ServiceEntry) {
	const name = "resolution DYNAMIC_DNS"
	for i, host := range entry.GetHosts() {
		if !strings.HasPrefix(host, "*") {
			r.errorf(at.Child("hosts").Index(i), "%q must be a wildcard with %s", host, name)
		}
	}
	if len(entry.GetAddresses()) > 0 {
		r.errorf(at.Child("addresses"), "must not be set with %s", name)
	}
	if len(entry.GetEndpoints()) > 0 {
		r.errorf(at.Child("endpoints"), "must not be set with %s", name)
	}
	for i, port := range entry.GetPorts() {
		if p := port.GetProtocol(); !isHTTP(p) && !isTLS(p) {
			r.errorf(at.Child("ports").Index(i).Child("protocol"),
				"%q does not tell the host that is meant: only HTTP and TLS protocols are allowed with %s",
				p, name)
		}
	}
}
