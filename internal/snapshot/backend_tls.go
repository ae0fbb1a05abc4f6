package snapshot

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// splitExtensions returns the DestinationRules of users in parts, and the settings of rules that
// were converted from other objects: all TLS settings, and the first retry budget or nil.
func splitExtensions(
	parts []*config.Config,
) (own []*config.Config, extensions []config.BackendTLS, budget *config.RetryBudget) {
	for _, c := range parts {
		if c.Extension == nil {
			own = append(own, c)
			continue
		}
		extensions = append(extensions, c.Extension.BackendTLS...)
		budget = cmp.Or(budget, c.Extension.RetryBudget)
	}
	return own, extensions, budget
}

// withExtensions returns a copy of the merge of parts with the TLS settings of extensions and the
// retry budget, which may be nil, wherever the merge leaves them unset: settings of users prevail.
// parts are the DestinationRules of users, perhaps none. A TLS setting for a port applies to that
// port, also if users set TLS for the whole host. A setting without a port applies to all other
// ports. Subsets are not changed.
func withExtensions(
	parts []*config.Config,
	extensions []config.BackendTLS,
	budget *config.RetryBudget,
) *networking.DestinationRule {
	spec := new(networking.DestinationRule)
	if len(parts) > 0 {
		spec = proto.CloneOf(mergedSpec(parts))
	}
	if spec.TrafficPolicy == nil {
		spec.TrafficPolicy = new(networking.TrafficPolicy)
	}
	policy := spec.TrafficPolicy
	if budget != nil && policy.RetryBudget == nil {
		policy.RetryBudget = &networking.TrafficPolicy_RetryBudget{
			Percent: wrapperspb.Double(budget.Percent), BudgetInterval: durationpb.New(budget.Interval),
			MinRetryConcurrency: budget.MinConcurrency,
		}
	}
	for _, x := range extensions {
		if x.Port != 0 {
			setIfUnset(&portPolicy(policy, x.Port).Tls, x)
		}
	}
	for _, x := range extensions {
		if x.Port != 0 {
			continue
		}
		setIfUnset(&policy.Tls, x)
		for _, p := range policy.PortLevelSettings {
			setIfUnset(&p.Tls, x)
		}
	}
	return spec
}

// setIfUnset sets *tls to the TLS settings of an extension, unless it has some.
func setIfUnset(tls **networking.ClientTLSSettings, x config.BackendTLS) {
	if *tls == nil {
		*tls = clientTLS(x)
	}
}

// portPolicy returns the settings of a port in p, to be modified by the caller. If there are none,
// it adds some to p, with p's load balancer, connection pool and outlier detection, but without
// TLS.
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

// clientTLS returns the TLS settings of an extension: SIMPLE, or MUTUAL with a client certificate.
// Without a credential of CA certificates, the system's roots are trusted. With a client
// certificate, the CA certificates are in caCertificates, which then has the form of a credential
// name.
func clientTLS(x config.BackendTLS) *networking.ClientTLSSettings {
	t := &networking.ClientTLSSettings{
		Mode: networking.ClientTLSSettings_SIMPLE, Sni: x.ServerName, SubjectAltNames: x.Names,
		CredentialName: x.CredentialName,
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
