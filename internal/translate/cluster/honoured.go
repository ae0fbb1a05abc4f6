package cluster

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
)

// ruleFields are the fields of a DestinationRule that are followed: here, by the endpoints (subsets, locality), by routes
// (what requests are hashed by), by listeners (idle timeouts of TCP), or by the snapshot (host, exportTo).
func ruleFields() config.Fields {
	f := config.Fields{"host", "exportTo", "subsets.name", "subsets.labels"}
	levels := []string{"trafficPolicy", "trafficPolicy.portLevelSettings", "subsets.trafficPolicy", "subsets.trafficPolicy.portLevelSettings"}
	for _, level := range levels {
		for _, group := range policyFields() {
			f = append(f, level+"."+group)
		}
		if strings.HasSuffix(level, "portLevelSettings") {
			f = append(f, level+".port")
		} else {
			f = append(f, level+".proxyProtocol", level+".retryBudget")
		}
	}
	return f
}

// policyFields are those of the groups that a policy and its port level settings have in common.
func policyFields() []string {
	return []string{
		"connectionPool",
		"loadBalancer.simple", "loadBalancer.consistentHash", "loadBalancer.localityLbSetting",
		"loadBalancer.warmup", "loadBalancer.warmupDurationSecs",
		"outlierDetection.splitExternalLocalOriginErrors", "outlierDetection.consecutiveLocalOriginFailures",
		"outlierDetection.consecutiveGatewayErrors", "outlierDetection.consecutive5xxErrors",
		"outlierDetection.interval", "outlierDetection.baseEjectionTime", "outlierDetection.maxEjectionPercent",
		"outlierDetection.minHealthPercent", "outlierDetection.outlierDetectionHttpErrorCodes",
		"tls.mode", "tls.clientCertificate", "tls.privateKey", "tls.caCertificates", "tls.subjectAltNames", "tls.sni",
		"tls.insecureSkipVerify", "tls.caCrl",
		"tls.credentialName", // see unhonouredValues
	}
}

// SidecarFields are the fields of a Sidecar that clusters follow.
func SidecarFields() config.Fields {
	return config.Fields{"inboundConnectionPool", "ingress.connectionPool", "ingress.port", "ingress.defaultEndpoint"}
}

// Unhonoured gives what of a DestinationRule is not followed, or not as it says, as Warnings without Key and Origin.
func Unhonoured(spec *networking.DestinationRule) []config.Problem {
	found := ruleFields().Unhonoured(spec)
	found = append(found, unhonouredPolicy("spec.trafficPolicy", spec.GetTrafficPolicy())...)
	for i, s := range spec.GetSubsets() {
		found = append(found, unhonouredPolicy(fmt.Sprintf("spec.subsets[%d].trafficPolicy", i), s.GetTrafficPolicy())...)
	}
	return found
}

func unhonouredPolicy(field string, p *networking.TrafficPolicy) []config.Problem {
	found := unhonouredValues(field, p.GetTls(), p.GetLoadBalancer())
	for i, s := range p.GetPortLevelSettings() {
		found = append(found, unhonouredValues(fmt.Sprintf("%s.portLevelSettings[%d]", field, i), s.GetTls(), s.GetLoadBalancer())...)
	}
	return found
}

// unhonouredValues finds values that are not followed, of fields that otherwise are.
func unhonouredValues(field string, tls *networking.ClientTLSSettings, lb *networking.LoadBalancerSettings) []config.Problem {
	var found []config.Problem
	warn := func(field, reason string) {
		found = append(found, config.Problem{Field: field, Reason: reason, Severity: config.Warning})
	}
	if tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL {
		warn(field+".tls.mode", "ISTIO_MUTUAL is not honoured yet: proxies have no identities, so these connections are not encrypted")
	}
	if tls.GetCredentialName() != "" {
		warn(field+".tls.credentialName", "credentials by name are not honoured yet: the server is checked against public authorities, and no client certificate is sent")
	}
	for i, entry := range lb.GetLocalityLbSetting().GetFailoverPriority() {
		if !strings.Contains(entry, "=") && !endpoint.KnownLabel(entry) {
			warn(fmt.Sprintf("%s.loadBalancer.localityLbSetting.failoverPriority[%d]", field, i),
				"the caller's own labels are not honoured yet, only those of the topology, and \"label=value\": this entry plays no part")
		}
	}
	return found
}
