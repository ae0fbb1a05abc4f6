package gatewayapi

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// newGateway returns the Istio Gateway that a listener is converted to, with one server. It selects
// only proxies of its own namespace. A listener that terminates TLS has its certificates, its
// validation of client certificates and its options; a passthrough listener only the mode.
func (g *gateway) newGateway(l *listener, o Options) *config.Config {
	server := &networking.Server{
		Hosts: []string{string(l.host)},
		Port: &networking.Port{
			Number: uint32(l.spec.Port), Protocol: string(l.spec.Protocol), //nolint:gosec // validated by the API
			Name: strings.ToLower(fmt.Sprintf("%s-%d-%s", l.spec.Protocol, l.spec.Port, l.spec.Name)),
		},
	}
	_, manual := o.hostnameAddress(g.spec.Addresses)
	x := &config.GatewayExtension{OwnNamespace: true, Managed: !manual, ClientCertificate: g.certificate,
		ServiceAccount: g.serviceAccount(o), RouteNamespaces: l.routeNamespaces}
	switch {
	case l.isPassthrough():
		server.Tls = &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_PASSTHROUGH}
		if l.isAutoPassthrough(g.object.Labels) {
			server.Tls.Mode = networking.ServerTLSSettings_AUTO_PASSTHROUGH
		}
	case l.usesCertificates():
		server.Tls = &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE,
			CredentialNames: l.certificates}
		if len(l.certificates) == 1 {
			server.Tls.CredentialName, server.Tls.CredentialNames = l.certificates[0], nil
		}
		if l.clients.authority != "" {
			server.Tls.Mode, server.Tls.CaCertCredentialName = networking.ServerTLSSettings_MUTUAL, l.clients.authority
			if l.clients.optional {
				server.Tls.Mode = networking.ServerTLSSettings_OPTIONAL_MUTUAL
				server.Tls.InsecureSkipVerify = wrapperspb.Bool(true)
			}
		}
		l.applyOptions(server.Tls)
	}
	spec := &networking.Gateway{Selector: g.selector, Servers: []*networking.Server{server}}
	return newObject(l.internal, g.object, spec, &config.Extension{Source: l.parent, Gateway: x})
}
