package cluster

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Unhonoured returns a Warning, without Key and Origin, for each setting of a DestinationRule that
// has no effect on some or all of its proxies, or makes connections fail. It returns nil if there
// is none. Settings that take effect outside clusters, in endpoints, routes, listeners or the
// snapshot, are not reported.
func Unhonoured(spec *networking.DestinationRule) []config.Problem {
	u := unhonoured{selects: spec.GetWorkloadSelector() != nil}
	for field, p := range config.TrafficPolicies(spec) {
		u.checkPolicy(field, p)
	}
	return u.found
}

type unhonoured struct {
	selects bool // The rule has a workloadSelector.
	found   []config.Problem
}

// warn adds a Warning about a field.
func (u *unhonoured) warn(field, reason string) {
	u.found = append(u.found, config.Problem{Code: code.FieldWithoutEffect, Field: field, Reason: reason,
		Severity: config.Warning})
}

// policyLevel is the common interface of a policy and its port level settings.
type policyLevel interface {
	GetTls() *networking.ClientTLSSettings
	GetOutlierDetection() *networking.OutlierDetection
}

// checkPolicy adds the Warnings of a policy and its port level settings, nil for none; field is the
// path of p in the spec.
func (u *unhonoured) checkPolicy(field string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	u.checkLevel(field, p)
	for i, s := range p.GetPortLevelSettings() {
		u.checkLevel(fmt.Sprintf("%s.portLevelSettings[%d]", field, i), s)
	}
}

// checkLevel adds the Warnings about the credential of l's TLS settings (checkTLS) and about
// outlierDetection.consecutiveErrors, which no longer has an effect. l is a policy or one of its
// port level settings, and field its path.
func (u *unhonoured) checkLevel(field string, l policyLevel) {
	u.checkTLS(field+".tls", l.GetTls())
	if l.GetOutlierDetection().GetConsecutiveErrors() != 0 { //nolint:staticcheck // who still writes it is to know
		u.warn(
			field+".outlierDetection.consecutiveErrors",
			"no longer has an effect: consecutive5xxErrors and consecutiveGatewayErrors replace it",
		)
	}
}

// checkTLS adds the Warnings about the credential of tls, which may be nil; field is its path.
// There are none for other modes than SIMPLE and MUTUAL, and none without a credentialName.
func (u *unhonoured) checkTLS(field string, tls *networking.ClientTLSSettings) {
	switch tls.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		if tls.GetCredentialName() != "" {
			u.checkCredential(field+".credentialName", tls)
		}
	default:
	}
}

// checkCredential adds a Warning if the credential's name in tls is invalid, else if MUTUAL names a
// ConfigMap, but neither if it is external (mesh.ExternalPrefix). In a rule without
// workloadSelector it adds another unless the name is of a ConfigMap, because only gateways receive
// the credential.
func (u *unhonoured) checkCredential(field string, tls *networking.ClientTLSSettings) {
	mutual := tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	name, external := strings.CutPrefix(tls.GetCredentialName(), mesh.ExternalPrefix)
	n, ok := mesh.CredentialName(name)
	switch {
	case external: // Proxies with a server of credentials use any name.
	case !ok:
		u.warn(field, "no credential has a name of this form: connections fail")
	case n.Store == mesh.ConfigMapSecret && mutual:
		u.warn(field, "a ConfigMap has no client certificate, which mode MUTUAL needs: connections fail")
	}
	if !u.selects && n.Store != mesh.ConfigMapSecret {
		u.warn(
			field,
			"is for gateways only, since the rule has no workloadSelector: sidecars check the server against public authorities, and show it no certificate",
		)
	}
}
