package config

import (
	"net"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// checkSidecar adds an Error for a Sidecar with none of ingress, egress, outboundTrafficPolicy and
// inboundConnectionPool. It adds the Errors and Warnings of these fields and of the
// workloadSelector.
func (r *report) checkSidecar(at path, sidecar *networking.Sidecar) {
	if len(sidecar.GetIngress())+len(sidecar.GetEgress()) == 0 && sidecar.GetOutboundTrafficPolicy() == nil &&
		sidecar.GetInboundConnectionPool() == nil {
		r.errorf(at, "is empty, one of ingress, egress, outboundTrafficPolicy and inboundConnectionPool is required")
	}
	if selector := sidecar.GetWorkloadSelector(); selector != nil {
		r.checkMatchLabels(at.Child("workloadSelector", "labels"), selector.GetLabels(), true)
	}
	r.checkIngressListeners(at.Child("ingress"), sidecar.GetIngress())
	r.checkEgressListeners(at.Child("egress"), sidecar.GetEgress())
	r.checkConnectionPool(at.Child("inboundConnectionPool"), sidecar.GetInboundConnectionPool())
	r.checkEgressProxy(at.Child("outboundTrafficPolicy"), sidecar.GetOutboundTrafficPolicy())
}

// checkIngressListeners adds Errors for ingress listeners of a Sidecar without a port, with the
// port of an earlier one, or with an invalid bind, defaultEndpoint, TLS or connection pool. bind
// must be an IP address. The checks of port and TLS also add Warnings.
func (r *report) checkIngressListeners(at path, listeners []*networking.IstioIngressListener) {
	ports := map[uint32]bool{}
	for i, listener := range listeners {
		here := at.Index(i)
		if listener.GetPort() == nil {
			r.errorf(here.Child("port"), "is required")
		} else {
			r.checkSidecarPort(here.Child("port"), listener.GetPort())
			r.checkPortNumber(here.Child("port", "number"), listener.GetPort().GetNumber())
			r.checkUniquePort(here.Child("port", "number"), listener.GetPort().GetNumber(), ports)
		}
		if bind := listener.GetBind(); bind != "" {
			r.addFault(here.Child("bind"), ipFault(bind)) // sockets are for egress only
		}
		if endpoint := listener.GetDefaultEndpoint(); endpoint != "" {
			r.checkIngressEndpoint(here.Child("defaultEndpoint"), endpoint)
		}
		r.checkIngressTLS(here.Child("tls"), listener)
		r.checkConnectionPool(here.Child("connectionPool"), listener.GetConnectionPool())
	}
}

// checkUniquePort adds an Error for a port that is already in seen, even on a different bind
// address. It adds the port to seen. Number 0 is never an Error.
func (r *report) checkUniquePort(at path, number uint32, seen map[uint32]bool) {
	if seen[number] && number != 0 {
		r.errorf(at, "port %d is there twice", number)
	}
	seen[number] = true
}

// checkSidecarPort adds Errors for an unknown protocol and an invalid name, which may be empty, and
// a Warning for targetPort. It does not check the number.
func (r *report) checkSidecarPort(at path, port *networking.SidecarPort) {
	if port.GetName() != "" {
		r.checkPortName(at.Child("name"), port.GetName())
	}
	r.checkProtocol(at.Child("protocol"), port.GetProtocol())
	//nolint:staticcheck // the deprecated field is still read
	if port.GetTargetPort() != 0 {
		r.warnf(at.Child("targetPort"), "has no effect in a Sidecar")
	}
}

// checkIngressEndpoint adds an Error unless endpoint is a Unix socket or a port of a loopback or
// unspecified address (127.0.0.1, ::1, 0.0.0.0, ::). ":PORT" is accepted because Istio treats it as
// no endpoint: requests then keep their original address and port.
func (r *report) checkIngressEndpoint(at path, endpoint string) {
	if IsSocket(endpoint) {
		r.addFault(at, unixFault(endpoint))
		return
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil || !slices.Contains([]string{"", "127.0.0.1", "0.0.0.0", "::1", "::"}, host) {
		r.errorf(at, "%q must be 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix:///path", endpoint)
		return
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		r.errorf(at, "port %q is not in the range 1..%d", port, maxPort)
	}
}

// checkIngressTLS adds the Errors and Warnings of checkServerTLS for the TLS settings of an ingress
// listener. It also adds Errors for the modes ISTIO_MUTUAL and AUTO_PASSTHROUGH, for httpsRedirect,
// and for a protocol other than HTTPS and TLS. Without settings it does nothing.
func (r *report) checkIngressTLS(at path, listener *networking.IstioIngressListener) {
	tls := listener.GetTls()
	if tls == nil {
		return
	}
	switch tls.GetMode() {
	case networking.ServerTLSSettings_ISTIO_MUTUAL, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		r.errorf(at.Child("mode"), "%s is not supported here, use SIMPLE or MUTUAL", tls.GetMode())
	}
	if tls.GetHttpsRedirect() {
		r.errorf(at.Child("httpsRedirect"), "is not supported here")
	}
	if protocol := listener.GetPort().GetProtocol(); !isTLS(protocol) {
		r.errorf(at, "must not be set for protocol %q, only for HTTPS and TLS", protocol)
	}
	r.checkServerTLS(at, tls)
}

// checkEgressListeners adds the Errors and Warnings of each egress listener of a Sidecar
// (checkEgressPort, checkEgressHosts), and an Error for two with the same port. Only the last
// listener may have no port. A bind without a port is a Warning.
func (r *report) checkEgressListeners(at path, listeners []*networking.IstioEgressListener) {
	ports := map[uint32]bool{}
	for i, listener := range listeners {
		here := at.Index(i)
		if listener.GetPort() == nil {
			if i != len(listeners)-1 {
				r.errorf(here, "a listener without port must be the last one")
			}
			if listener.GetBind() != "" {
				r.warnf(here.Child("bind"), "has no effect without port")
			}
		} else {
			r.checkEgressPort(here, listener)
			r.checkUniquePort(here.Child("port", "number"), listener.GetPort().GetNumber(), ports)
		}
		r.checkEgressHosts(here.Child("hosts"), listener.GetHosts())
	}
}

// checkEgressPort adds Errors for an invalid port or bind of an egress listener, and a Warning for
// targetPort. With a port, bind must be an IP address or empty. Number 0 is valid only for a Unix
// domain socket, for which the capture mode must not be IPTABLES.
func (r *report) checkEgressPort(at path, listener *networking.IstioEgressListener) {
	r.checkSidecarPort(at.Child("port"), listener.GetPort())
	bind, number := listener.GetBind(), listener.GetPort().GetNumber()
	switch {
	case number != 0:
		r.checkPortNumber(at.Child("port", "number"), number)
		if bind != "" {
			r.addFault(at.Child("bind"), ipFault(bind))
		}
	case !IsSocket(bind):
		r.errorf(at.Child("port", "number"), "0 is allowed only when bind is a Unix domain socket")
	default:
		r.addFault(at.Child("bind"), unixFault(bind))
		if listener.GetCaptureMode() == networking.CaptureMode_IPTABLES {
			r.errorf(at.Child("captureMode"), "must be DEFAULT or NONE for a Unix domain socket")
		}
	}
}

// checkEgressHosts adds Errors if there are no hosts, and for each host not of the form
// "namespace/dnsName". It adds Warnings for hosts without effect: duplicates, hosts imported beside
// "*/*", and a list that only excludes, unless it contains "~/*". A "~" before the namespace
// excludes the host. The namespace "~" alone excludes it in all namespaces.
func (r *report) checkEgressHosts(at path, hosts []string) {
	if len(hosts) == 0 {
		r.errorf(at, "at least one host is required")
	}
	imports := func(host string) bool { return !strings.HasPrefix(host, "~") }
	if len(hosts) > 0 && !slices.ContainsFunc(hosts, imports) && !slices.Contains(hosts, "~/*") {
		r.warnf(at, "only excludes hosts: this listener imports nothing")
	}
	seen := map[string]bool{}
	for i, host := range hosts {
		here := at.Index(i)
		namespace, name, qualified := strings.Cut(host, "/")
		excluded := strings.HasPrefix(namespace, "~")
		switch {
		case !qualified:
			r.errorf(here, "%q must be namespace/dnsName", host)
		case namespace == "~":
			r.checkNamespacedHost(here, "*", name, "*")
		default:
			r.checkNamespacedHost(here, strings.TrimPrefix(namespace, "~"), name, "*", ".")
		}
		if seen[host] {
			r.warnf(here, "%q is there twice", host)
		} else if slices.Contains(hosts, "*/*") && host != "*/*" && !excluded {
			r.warnf(here, "%q has no effect beside \"*/*\"", host)
		}
		seen[host] = true
	}
}

// checkEgressProxy adds Errors for an invalid egress proxy of a policy; both may be nil. The proxy
// needs mode ALLOW_ANY, a port and a valid destination (checkDestination), and its host must not be
// a wildcard.
func (r *report) checkEgressProxy(at path, policy *networking.OutboundTrafficPolicy) {
	proxy := policy.GetEgressProxy()
	if proxy == nil {
		return
	}
	at = at.Child("egressProxy")
	if policy.GetMode() != networking.OutboundTrafficPolicy_ALLOW_ANY {
		r.errorf(at, "is allowed only with mode ALLOW_ANY")
	}
	if proxy.GetPort() == nil {
		r.errorf(at.Child("port"), "is required")
	}
	r.checkDestination(at, proxy)
	if fault := domainFault(proxy.GetHost()); fault != "" && wildcardFault(proxy.GetHost()) == "" {
		r.addFault(at.Child("host"), fault)
	}
}
