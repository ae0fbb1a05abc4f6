package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// resolvedPolicy is the result of checking a BackendTLSPolicy or the validation of an XBackend: the
// verdicts for its conditions Accepted and ResolvedRefs, the SDS name of the CA certificates, and
// the objects that it refers to. credential is "" if there are no references of a supported kind.
type resolvedPolicy struct {
	accepted, resolved verdict
	credential         string
	refs               []config.Key
}

// resolvePolicy returns the CA certificates of a BackendTLSPolicy, as the SDS name of one object or
// of the bundle of several, and its verdicts. Faulty references fail resolved but are used, because
// they may become valid. If all are faulty, or the well-known set is unknown, accepted fails.
func (c *Converter) resolvePolicy(object *config.Config) resolvedPolicy {
	return c.resolveValidation(object, "spec.validation",
		config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.Validation)
}

// resolveValidation returns the CA certificates of a BackendTLSPolicy or XBackend. refs are the
// referenced ConfigMaps and Secrets, usable or not; credential is the name of the only one, or of a
// bundle of several. field is the path of v in the object. The first faulty reference fails
// out.resolved. References without a usable one among them, and a well-known set other than System,
// fail out.accepted.
func (c *Converter) resolveValidation(
	object *config.Config,
	field string,
	v gatewayv1.BackendTLSPolicyValidation,
) resolvedPolicy {
	var out resolvedPolicy
	usable := false
	for i, ref := range v.CACertificateRefs {
		at := fmt.Sprintf("%s.caCertificateRefs[%d]", field, i)
		k := config.Key{Kind: api.ConfigMap, Namespace: object.Namespace, Name: string(ref.Name)}
		switch {
		case ref.Group == "" && ref.Kind == "Secret":
			k.Kind = api.Secret
		case ref.Group != "" || ref.Kind != "ConfigMap":
			out.resolved.worse(verdict{
				string(gatewayv1.BackendTLSPolicyReasonInvalidKind),
				fmt.Sprintf("%s: kind %q is neither ConfigMap nor Secret", at, ref.Kind),
			})
			continue
		}
		out.refs = append(out.refs, k)
		fault := c.authorityFault(k)
		if fault != "" {
			out.resolved.worse(verdict{
				string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef),
				fmt.Sprintf("%s: %s %s %s", at, k.Kind, k.Name, fault),
			})
		}
		usable = usable || fault == ""
	}
	switch len(out.refs) {
	case 0:
	case 1:
		out.credential = authorityName(out.refs[0])
	default:
		out.credential = authorityName(bundleOf(object.Key))
	}
	if !usable && len(v.CACertificateRefs) > 0 {
		out.accepted = verdict{string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate), out.resolved.message}
	}
	if w := v.WellKnownCACertificates; w != nil && *w != gatewayv1.WellKnownCACertificatesSystem {
		out.accepted.worse(verdict{
			string(gatewayv1.PolicyReasonInvalid),
			fmt.Sprintf("%s.wellKnownCACertificates: %q is not supported", field, *w),
		})
	}
	return out
}

// impossibleName is a subject alternative name that no certificate has. Connections under a policy
// without any CA certificates fail because of it. If CA certificates do not exist, proxies refuse
// connections until they have them.
const impossibleName = "invalid-backend-tls-policy.invalid"

// backendTLS returns the TLS settings of a resolved policy for a port; 0 means all ports. The
// policy's hostname is the server name, and without subject names also the required name. A policy
// that is not accepted and has no credential requires a name that no certificate has, so that
// connections fail.
func backendTLS(v gatewayv1.BackendTLSPolicyValidation, r resolvedPolicy, port uint32) config.BackendTLS {
	out := config.BackendTLS{Port: port, CredentialName: r.credential, ServerName: string(v.Hostname)}
	for _, n := range v.SubjectAltNames {
		if n.Type == gatewayv1.URISubjectAltNameType {
			out.Names = append(out.Names, string(n.URI))
		} else {
			out.Names = append(out.Names, string(n.Hostname))
		}
	}
	if len(out.Names) == 0 {
		out.Names = []string{string(v.Hostname)}
	}
	if !r.accepted.ok() && r.credential == "" {
		out.Names = []string{impossibleName}
	}
	return out
}

// certifiedRules returns a copy of the DestinationRule spec, with the name of key and the TLS
// settings list, for each Gateway that has a client certificate for backends and accepted a route
// to target. Each copy adds the certificate and target's retry budget and applies only to the
// Gateway's proxies, which use it instead of the original. The copies are sorted by the name of the
// Gateway.
func (c *Converter) certifiedRules(
	key config.Key,
	from *config.Config,
	spec *networking.DestinationRule,
	list []config.BackendTLS,
	target config.Key,
) []*config.Config {
	var objects []*config.Config
	budget, _ := c.retryBudget(target)
	for _, n := range slices.SortedFunc(maps.Keys(c.gatewaysTo(target)), compareNames) {
		g := c.gateways[n]
		if g == nil || g.certificate == "" {
			continue
		}
		x := config.Extension{Source: from.Key, BackendTLS: list, RetryBudget: budget}
		objects = append(objects, certifiedRule(g, key, from, spec, x, g.certificate))
	}
	return objects
}

// certifiedRule returns a copy of the DestinationRule spec with the settings x, for only the
// proxies of Gateway g: it is in g's namespace, and its name contains that of key. For TLS
// connections the proxies present the client certificate with this SDS name.
func certifiedRule(
	g *gateway,
	key config.Key,
	from *config.Config,
	spec *networking.DestinationRule,
	x config.Extension,
	certificate string,
) *config.Config {
	own := proto.CloneOf(spec)
	own.ExportTo, own.WorkloadSelector = []string{"."}, &typev1beta1.WorkloadSelector{MatchLabels: g.selector}
	x.BackendTLS = slices.Clone(x.BackendTLS)
	for i := range x.BackendTLS {
		x.BackendTLS[i].ClientCredential = certificate
	}
	k := config.Key{Kind: key.Kind, Namespace: g.Namespace, Name: key.Namespace + "~" + key.Name + "~" + g.Name}
	return newObject(k, from, own, &x)
}
