package snapshot

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// splitExtensions separates the DestinationRules of users from the TLS settings of rules that were
// converted from other objects.
func splitExtensions(parts []*config.Config) (own []*config.Config, extensions []config.BackendTLS) {
	for _, c := range parts {
		if c.Extension == nil {
			own = append(own, c)
		} else {
			extensions = append(extensions, c.Extension.BackendTLS...)
		}
	}
	return own, extensions
}

// withBackendTLS returns the merge of users' DestinationRules, which may be none, with the TLS
// settings of extensions. A setting for a port applies to that port. A setting without one replaces
// those of all other ports, the users' too.
func withBackendTLS(parts []*config.Config, extensions []config.BackendTLS) *networking.DestinationRule {
	spec := new(networking.DestinationRule)
	if len(parts) > 0 {
		spec = proto.CloneOf(mergedSpec(parts))
	}
	if spec.TrafficPolicy == nil {
		spec.TrafficPolicy = new(networking.TrafficPolicy)
	}
	policy := spec.TrafficPolicy
	for _, x := range extensions {
		if x.Port != 0 {
			portPolicy(policy, x.Port).Tls = clientTLS(x)
			continue
		}
		policy.Tls = clientTLS(x)
		for _, p := range policy.PortLevelSettings {
			if !slices.ContainsFunc(extensions, func(o config.BackendTLS) bool { return o.Port == p.GetPort().GetNumber() }) {
				p.Tls = clientTLS(x)
			}
		}
	}
	return spec
}

// portPolicy returns the settings of a port, and creates them from those of the host if needed.
func portPolicy(p *networking.TrafficPolicy, port uint32) *networking.TrafficPolicy_PortTrafficPolicy {
	for _, s := range p.PortLevelSettings {
		if s.GetPort().GetNumber() == port {
			return s
		}
	}
	s := &networking.TrafficPolicy_PortTrafficPolicy{
		Port: &networking.PortSelector{Number: port}, LoadBalancer: p.LoadBalancer,
		ConnectionPool: p.ConnectionPool, OutlierDetection: p.OutlierDetection,
	}
	p.PortLevelSettings = append(p.PortLevelSettings, s)
	return s
}

// clientTLS returns the TLS settings of an extension. With a client certificate, the CA certificates
// are in caCertificates, which then has the form of a credential name.
func clientTLS(x config.BackendTLS) *networking.ClientTLSSettings {
	t := &networking.ClientTLSSettings{
		Mode: networking.ClientTLSSettings_SIMPLE, Sni: x.ServerName, SubjectAltNames: x.Names, CredentialName: x.CredentialName,
	}
	if x.CredentialName == "" {
		t.CaCertificates = mesh.SystemRoots
	}
	if x.ClientCredential != "" {
		t.Mode, t.CredentialName = networking.ClientTLSSettings_MUTUAL, x.ClientCredential
		if x.CredentialName != "" {
			t.CaCertificates = x.CredentialName
		}
	}
	return t
}
