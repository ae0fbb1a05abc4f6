package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The service of an XBackend has a port that no application uses, because sidecars in the
// namespaces of Gateways see it, too. grpcBackendPort is the port for GRPCRoutes if the XBackend
// has no protocol.
const (
	backendPort     = poolPort
	grpcBackendPort = backendPort + 1
)

// resolvedBackend is an XBackend with the objects that it refers to.
type resolvedBackend struct {
	// fault fails if the XBackend cannot be used, with the reason of the routes that refer to it.
	fault verdict
	// warning fails if some of its CA certificates cannot be used.
	warning verdict
	// tls is nil without TLS. certificate is the SDS name of the client certificate, or "".
	tls         *config.BackendTLS
	certificate string
	// refs are the objects that it refers to, and authorities those with CA certificates.
	refs, authorities []config.Key
}

// backendHost returns the hostname of the service of an XBackend.
func (c *Converter) backendHost(k config.Key) mesh.Hostname {
	return mesh.Hostname(k.Name + "." + k.Namespace + ".xbackend." + c.options.Domain)
}

// externalBackend resolves a granted backendRef to an XBackend to its destination. It returns nil,
// with a verdict, if the XBackend does not exist or cannot be used by the route. field is the path
// of the reference, whose port may be missing but must not be another. Mesh parents, UDPRoutes, and
// HTTP or GRPC routes to TCP backends cannot use one.
func (r *routeReader) externalBackend(
	field string,
	k config.Key,
	port *int32,
) (*networking.Destination, verdict) {
	c := r.converter
	fail := func(reason gatewayv1.RouteConditionReason, format string, args ...any) (*networking.Destination, verdict) {
		return nil, verdict{string(reason), field + fmt.Sprintf(format, args...)}
	}
	object := c.objects.all[k]
	if object == nil {
		return fail(gatewayv1.RouteReasonBackendNotFound, ": %s %s/%s does not exist", k.Kind, k.Namespace, k.Name)
	}
	resolved, spec := c.resolveBackend(object), config.Spec[*gatewayx.XBackend](object).Spec
	layer4 := spec.Protocol != nil && *spec.Protocol == gatewayx.BackendProtocolTCP
	switch kind := r.object.Kind; {
	case r.inMesh:
		return fail(gatewayv1.RouteReasonInvalidKind, ": XBackends are supported only by gateways")
	case !resolved.fault.ok():
		return fail(gatewayv1.RouteConditionReason(resolved.fault.reason), ": %s %s/%s cannot be used: %s",
			k.Kind, k.Namespace, k.Name, resolved.fault.message)
	case port != nil && *port != int32(spec.Port.Port):
		return fail(gatewayv1.RouteReasonBackendNotFound, ".port: %s %s/%s has no port %d", k.Kind, k.Namespace, k.Name,
			*port)
	case kind == api.UDPRoute, layer4 && (kind == api.HTTPRoute || kind == api.GRPCRoute):
		return fail(gatewayv1.RouteReasonUnsupportedProtocol, ": %ss cannot call %s %s/%s because of its protocol",
			kind, k.Kind, k.Namespace, k.Name)
	}
	number := uint32(backendPort)
	if spec.Protocol == nil && r.object.Kind == api.GRPCRoute {
		number = grpcBackendPort
	}
	return &networking.Destination{Host: string(c.backendHost(k)),
		Port: &networking.PortSelector{Number: number}}, verdict{}
}

// resolveBackend checks the fields of an XBackend and resolves its references. The first wrong
// field fails the fault. TLS settings and references are resolved only if all other fields are
// valid. Only the type ExternalHostname is supported.
func (c *Converter) resolveBackend(object *config.Config) resolvedBackend {
	var out resolvedBackend
	spec := config.Spec[*gatewayx.XBackend](object).Spec
	invalid := func(format string, args ...any) {
		out.fault.worse(verdict{string(gatewayv1.RouteReasonBackendNotFound), fmt.Sprintf(format, args...)})
	}
	switch {
	case spec.Type != gatewayx.BackendTypeExternalHostname:
		invalid("spec.type: %q is not supported", spec.Type)
	case spec.ExternalHostname == nil:
		invalid("spec.externalHostname: is required")
	default:
		if fault := c.hostnameFault(string(spec.ExternalHostname.Hostname)); fault != "" {
			invalid("spec.externalHostname.hostname: %s", fault)
		}
	}
	if spec.Port.Port < 1 || spec.Port.Port > 65535 {
		invalid("spec.port.port: %d is not a port number", spec.Port.Port)
	}
	encrypted := spec.TLS != nil && spec.TLS.Mode != gatewayx.BackendTLSModeNone
	if _, ok := backendProtocol(spec.Protocol, encrypted); !ok {
		out.fault.worse(verdict{
			string(gatewayv1.RouteReasonUnsupportedProtocol),
			fmt.Sprintf("spec.protocol: %q is not supported%s", *spec.Protocol,
				map[bool]string{true: " together with TLS"}[encrypted]),
		})
	}
	if spec.TLS != nil && out.fault.ok() {
		c.resolveBackendTLS(&out, object)
	}
	return out
}

// hostnameFault returns why an XBackend cannot have a hostname, or "" if it can. IP addresses,
// texts that are no DNS names in lower case, and names of the cluster are refused. The cluster's
// names end in ".cluster.local" or the mesh's domain.
func (c *Converter) hostnameFault(host string) string {
	_, err := netip.ParseAddr(host)
	inDomain := strings.HasSuffix(host, ".cluster.local") || strings.HasSuffix(host, "."+c.options.Domain)
	switch {
	case err == nil:
		return fmt.Sprintf("%q is an IP address", host)
	case len(validation.IsDNS1123Subdomain(host)) > 0:
		return fmt.Sprintf("%q is not a hostname", host)
	case inDomain:
		return fmt.Sprintf("%q is a name of the cluster", host)
	default:
		return ""
	}
}

// backendProtocol returns the protocol of connections to an XBackend: HTTP if p is nil, and also
// for TCP. ok is false if p is not supported; H2C is not supported together with TLS.
func backendProtocol(p *gatewayx.BackendProtocol, encrypted bool) (protocol mesh.Protocol, ok bool) {
	if p == nil {
		return mesh.HTTP, true
	}
	switch *p {
	case gatewayx.BackendProtocolTCP, gatewayx.BackendProtocolHTTP, gatewayx.BackendProtocolHTTP11:
		return mesh.HTTP, true
	case gatewayx.BackendProtocolH2C:
		return mesh.HTTP2, !encrypted
	case gatewayx.BackendProtocolHTTP2:
		return mesh.HTTP2, true
	case gatewayx.BackendProtocolGRPC:
		return mesh.GRPC, true
	default:
		return "", false
	}
}

// resolveBackendTLS sets the TLS fields of out from spec.tls of an XBackend, which is set; all
// other fields are valid. An unsupported mode, or a client certificate that is missing, superfluous
// or unusable for the mode, fails out.fault. So do CA certificates without a usable one. With the
// mode None, and after a fault of the mode, it sets nothing else. Without validation.hostname the
// name of the certificate must be the external hostname.
func (c *Converter) resolveBackendTLS(out *resolvedBackend, object *config.Config) {
	spec := config.Spec[*gatewayx.XBackend](object).Spec
	in := spec.TLS
	const field = "spec.tls.clientCertificateRef"
	mutual := in.Mode == gatewayx.BackendTLSModeClientAndServer
	fail := func(reason gatewayv1.RouteConditionReason, format string, args ...any) {
		out.fault.worse(verdict{string(reason), fmt.Sprintf(format, args...)})
	}
	switch {
	case !mutual && in.Mode != gatewayx.BackendTLSModeNone && in.Mode != gatewayx.BackendTLSModeServerOnly:
		fail(gatewayv1.RouteReasonBackendNotFound, "spec.tls.mode: %q is not supported", in.Mode)
	case mutual != (in.ClientCertificateRef != nil):
		fail(gatewayv1.RouteReasonBackendNotFound, "%s: must be set if and only if the mode is ClientAndServer", field)
	}
	if !out.fault.ok() || in.Mode == gatewayx.BackendTLSModeNone {
		return
	}
	if mutual {
		k, isSecret := secretRef(object.Namespace, *in.ClientCertificateRef)
		if isSecret {
			out.refs, out.certificate = append(out.refs, k), sdsName(k)
		}
		switch fault := c.certificateFault(k); {
		case !isSecret:
			fail(gatewayv1.RouteReasonInvalidKind, "%s: only Secrets are supported", field)
		case !c.isGranted(object.Key, k):
			fail(gatewayv1.RouteReasonRefNotPermitted, "%s: no ReferenceGrant in %s allows the reference to Secret %s",
				field, k.Namespace, k.Name)
		case fault != "":
			fail(gatewayv1.RouteReasonBackendNotFound, "%s: Secret %s/%s %s", field, k.Namespace, k.Name, fault)
		}
	}
	v := in.Validation
	if v.Hostname == "" {
		v.Hostname = spec.ExternalHostname.Hostname
	}
	authorities := c.resolveValidation(object, "spec.tls.validation", v)
	out.authorities, out.refs = authorities.refs, append(out.refs, authorities.refs...)
	out.warning = authorities.resolved
	if !authorities.accepted.ok() {
		fail(gatewayv1.RouteReasonBackendNotFound, "%s", authorities.accepted.message)
	}
	settings := backendTLS(v, authorities, 0)
	out.tls = &settings
}

// backendService returns the service of a usable XBackend, which proxies resolve by DNS, and its
// shard. It has the port backendPort and, without a declared protocol, grpcBackendPort for gRPC,
// both with the XBackend's port as target. It is visible only in the namespaces of parents, the
// Gateways that accepted a route to it, which must not be empty.
func (c *Converter) backendService(object *config.Config, parents []poolParent) (*mesh.Service, *mesh.Shard) {
	spec := config.Spec[*gatewayx.XBackend](object).Spec
	protocol, _ := backendProtocol(spec.Protocol, false)
	target := uint32(spec.Port.Port)
	s := mesh.Service{
		ServiceKey:   mesh.ServiceKey{Namespace: object.Namespace, Host: c.backendHost(object.Key)},
		Provider:     mesh.External,
		Cluster:      c.options.Cluster,
		Name:         object.Name,
		Resolution:   mesh.DNS,
		MeshExternal: true,
		Ports:        []mesh.Port{{Name: "http", Number: backendPort, Target: target, Protocol: protocol}},
		Labels:       object.Labels,
		Created:      object.Created.UTC(),
		From:         object.Key,
	}
	if spec.Protocol == nil {
		s.Ports = append(s.Ports, mesh.Port{Name: "grpc", Number: grpcBackendPort, Target: target, Protocol: mesh.GRPC})
	}
	for _, p := range parents {
		if !slices.Contains(s.ExportTo, p.gateway.Namespace) {
			s.ExportTo = append(s.ExportTo, p.gateway.Namespace)
		}
	}
	shard := mesh.Shard{
		Service: s.ServiceKey,
		Key:     mesh.ShardKey{Provider: s.Provider, Cluster: s.Cluster, Object: object.Key},
	}
	for _, p := range s.Ports {
		shard.Endpoints = append(shard.Endpoints, &mesh.Endpoint{
			Address:     string(spec.ExternalHostname.Hostname),
			Port:        target,
			ServicePort: p.Name,
			Namespace:   object.Namespace,
			Cluster:     c.options.Cluster,
		})
	}
	return s.Sealed(), shard.Sealed()
}
