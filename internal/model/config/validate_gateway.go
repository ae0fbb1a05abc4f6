package config

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// convertedGateway is the annotation by which istiod marks a Gateway that it converted from the
// Gateway API, with the value "gateway". Other control planes may send such Gateways.
const convertedGateway = "internal.istio.io/gateway-semantics"

// checkGateway adds Errors for a Gateway without servers, a name with dots unless the Gateway was
// converted, and duplicate port names. It adds the Errors and Warnings of its servers
// (checkServer). A selector that no workload can match, duplicate server names, and servers that
// cannot share a port, are Warnings. Empty names are no duplicates.
func (r *report) checkGateway(at path, gateway *networking.Gateway) {
	if strings.Contains(r.object.Name, ".") && r.object.Annotations[convertedGateway] != "gateway" {
		r.errorf(field.NewPath("metadata", "name"),
			"%q has a dot: a VirtualService cannot name such a Gateway", r.object.Name)
	}
	for _, key := range sortedKeys(gateway.GetSelector()) {
		r.checkMatchable(at.Child("selector").Key(key), key, gateway.GetSelector()[key])
	}
	servers := at.Child("servers")
	if len(gateway.GetServers()) == 0 {
		r.errorf(servers, "at least one server is required")
	}
	portNames, serverNames := map[string]bool{}, map[string]bool{}
	listeners := map[string]string{} // bind and port → protocol family
	for i, server := range gateway.GetServers() {
		here := servers.Index(i)
		r.checkServer(here, server)
		if name := server.GetPort().GetName(); name != "" && portNames[name] {
			r.errorf(here.Child("port", "name"), "port name %q is there twice", name)
		}
		portNames[server.GetPort().GetName()] = true
		if name := server.GetName(); name != "" && serverNames[name] {
			r.warnf(here.Child("name"), "server name %q is there twice", name)
		}
		serverNames[server.GetName()] = true
		r.warnSharedPort(here.Child("port", "number"), server, listeners)
	}
}

// warnSharedPort adds a Warning for a server if the first server with the same address and port has
// another protocol family: HTTP, TLS or TCP. The later server is not served then. It records the
// family of the first server in listeners.
func (r *report) warnSharedPort(at path, server *networking.Server, listeners map[string]string) {
	protocol := server.GetPort().GetProtocol()
	family := "TCP"
	if isHTTP(protocol) {
		family = "HTTP"
	} else if isTLS(protocol) {
		family = "TLS" // distinguished by server name
	}
	listener := fmt.Sprintf("%s|%d", server.GetBind(), server.GetPort().GetNumber())
	switch before, taken := listeners[listener]; {
	case !taken:
		listeners[listener] = family
	case before != family:
		r.warnf(at,
			"port %d is already served with %s by a server before this one, which is not served",
			server.GetPort().GetNumber(), before)
	}
}

// checkServer adds Errors for missing or invalid hosts, a missing or invalid port, and an invalid
// bind, which is an IP address or a Unix socket if set. TLS settings are Errors if they are
// invalid, missing for a TLS protocol, or do not fit the protocol. Duplicate hosts and
// defaultEndpoint are Warnings; the checks of port and TLS add further ones.
func (r *report) checkServer(at path, server *networking.Server) {
	hosts := at.Child("hosts")
	if len(server.GetHosts()) == 0 {
		r.errorf(hosts, "at least one host is required")
	}
	for i, host := range server.GetHosts() {
		r.checkServerHost(hosts.Index(i), host)
		if slices.Contains(server.GetHosts()[:i], host) {
			r.warnf(hosts.Index(i), "host %q is there twice", host)
		}
	}
	if server.GetDefaultEndpoint() != "" {
		r.warnf(at.Child("defaultEndpoint"), "is not implemented by the API and has no effect")
	}
	unix := IsSocket(server.GetBind())
	if bind := server.GetBind(); unix {
		r.addFault(at.Child("bind"), unixFault(bind))
	} else if bind != "" {
		r.addFault(at.Child("bind"), ipFault(bind))
	}
	r.checkServerPort(at.Child("port"), server.GetPort(), unix)
	if server.GetTls() != nil {
		r.checkServerTLS(at.Child("tls"), server.GetTls())
	}
	r.checkTLSForProtocol(at, server)
}

// checkServerHost adds Errors if host is not "*" or a fully qualified DNS name, possibly with a
// wildcard at its beginning. A namespace, "*" or "." may precede it, with a slash.
func (r *report) checkServerHost(at path, host string) {
	namespace, name, qualified := strings.Cut(host, "/")
	if !qualified {
		namespace, name = "*", host
	}
	r.checkNamespacedHost(at, namespace, name, "*", ".")
}

// checkServerPort adds Errors for a missing port, name or protocol, an unknown protocol, and an
// invalid number. unix is set for a Unix domain socket, whose number must be 0. targetPort is a
// Warning.
func (r *report) checkServerPort(at path, port *networking.Port, unix bool) {
	if port == nil {
		r.errorf(at, "is required")
		return
	}
	r.requireValue(at.Child("name"), port.GetName())
	r.requireValue(at.Child("protocol"), port.GetProtocol())
	r.checkProtocol(at.Child("protocol"), port.GetProtocol())
	switch {
	case !unix:
		r.checkPortNumber(at.Child("number"), port.GetNumber())
	case port.GetNumber() != 0:
		r.errorf(at.Child("number"), "must be 0 when bind is a Unix domain socket")
	}
	//nolint:staticcheck // the deprecated field is still read
	if port.GetTargetPort() != 0 {
		r.warnf(at.Child("targetPort"), "has no effect in a Gateway")
	}
}

// checkTLSForProtocol adds an Error for a server with the protocol HTTPS or TLS without TLS
// settings, and for one of another protocol with them. Plain HTTP may have settings with nothing
// but httpsRedirect. httpsRedirect with HTTPS or TLS is a Warning. A server without a protocol is
// not checked.
func (r *report) checkTLSForProtocol(at path, server *networking.Server) {
	protocol, tls := server.GetPort().GetProtocol(), server.GetTls()
	if protocol == "" {
		return
	}
	redirectOnly := tls.GetHttpsRedirect() && tls.GetMode() == networking.ServerTLSSettings_PASSTHROUGH &&
		!serverCertificates(tls).isSet()
	switch {
	case isTLS(protocol):
		if tls == nil {
			r.errorf(at.Child("tls"), "is required for protocol %s", protocol)
		}
		if tls.GetHttpsRedirect() {
			r.warnf(at.Child("tls", "httpsRedirect"), "has an effect for HTTP servers only")
		}
	case tls == nil:
	case !isHTTP(protocol):
		r.errorf(at.Child("tls"), "must not be set for protocol %s", protocol)
	case !redirectOnly:
		r.errorf(at.Child("tls"), "must have nothing but httpsRedirect for protocol %s, which is plain text", protocol)
	}
}
