package cluster

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Unhonoured gives what of a DestinationRule is not followed, or not by all that it is for, as Warnings without Key and
// Origin. Every field is followed somewhere: here, by the endpoints (subsets, locality), by routes (what requests are hashed
// by), by listeners (tunnels, idle timeouts of TCP), or by the snapshot (host, exportTo, workloadSelector).
func Unhonoured(spec *networking.DestinationRule) []config.Problem {
	u := unhonoured{selects: spec.GetWorkloadSelector() != nil}
	for field, p := range config.TrafficPolicies(spec) {
		u.policy(field, p)
	}
	return u.found
}

type unhonoured struct {
	selects bool // the rule has a workloadSelector
	found   []config.Problem
}

func (u *unhonoured) warn(field, reason string) {
	u.found = append(u.found, config.Problem{Field: field, Reason: reason, Severity: config.Warning})
}

// level is what a policy and its port level settings have in common.
type level interface {
	GetTls() *networking.ClientTLSSettings
	GetOutlierDetection() *networking.OutlierDetection
}

func (u *unhonoured) policy(field string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	u.level(field, p)
	for i, s := range p.GetPortLevelSettings() {
		u.level(fmt.Sprintf("%s.portLevelSettings[%d]", field, i), s)
	}
}

func (u *unhonoured) level(field string, l level) {
	u.tls(field+".tls", l.GetTls())
	if l.GetOutlierDetection().GetConsecutiveErrors() != 0 { //nolint:staticcheck // who still writes it is to know
		u.warn(field+".outlierDetection.consecutiveErrors", "has no effect any more: consecutive5xxErrors and consecutiveGatewayErrors took its place")
	}
}

func (u *unhonoured) tls(field string, tls *networking.ClientTLSSettings) {
	switch tls.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		if tls.GetCredentialName() != "" {
			u.credential(field+".credentialName", tls)
		}
	default:
	}
}

// credential says who does not get a credential.
func (u *unhonoured) credential(field string, tls *networking.ClientTLSSettings) {
	mutual := tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	name, external := strings.CutPrefix(tls.GetCredentialName(), externalPrefix)
	n, ok := mesh.CredentialName(name)
	switch {
	case external:
		u.warn(field, "a server beside the proxy is not asked for credentials yet: the name is taken for a Secret's")
	case !ok:
		u.warn(field, "nobody has a credential of this form: connections fail")
	case n.Store == mesh.ConfigMapSecret && mutual:
		u.warn(field, "a ConfigMap has no client certificate, which mode MUTUAL needs: connections fail")
	}
	if !u.selects && n.Store != mesh.ConfigMapSecret {
		u.warn(field, "is for gateways only, since the rule has no workloadSelector: sidecars check the server against public authorities, and show it no certificate")
	}
}
