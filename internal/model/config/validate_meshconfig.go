package config

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateMesh returns the reasons why a mesh configuration must not be used: invalid ports,
// durations, trust domains, locality settings, hosts of services, or proxy settings
// (checkProxyDefaults). It does not check single objects such as a provider. The users of such an
// object skip it if it is invalid, and report it. All Problems are Errors, with the fields of
// meshconfig.MeshConfig.
func ValidateMesh(m *meshconfig.MeshConfig) []Problem {
	r := &report{object: &Config{}}
	at := func(name string) path { return field.NewPath(name) }
	r.checkSignedPort(at("proxyListenPort"), m.GetProxyListenPort(), false)
	r.checkSignedPort(at("proxyInboundListenPort"), m.GetProxyInboundListenPort(), false)
	r.checkSignedPort(at("proxyHttpPort"), m.GetProxyHttpPort(), true)
	r.checkDuration(at("connectTimeout"), m.GetConnectTimeout())
	r.checkDuration(at("dnsRefreshRate"), m.GetDnsRefreshRate())
	r.checkDurationOrZero(at("protocolDetectionTimeout"), m.GetProtocolDetectionTimeout())
	r.addFault(at("trustDomain"), trustDomainFault(m.GetTrustDomain()))
	for i, alias := range m.GetTrustDomainAliases() {
		r.addFault(at("trustDomainAliases").Index(i), trustDomainFault(alias))
	}
	r.checkLocalityLB(at("localityLbSetting"), m.GetLocalityLbSetting(), true)
	for i, settings := range m.GetServiceSettings() {
		for j, host := range settings.GetHosts() {
			r.addFault(at("serviceSettings").Index(i).Child("hosts").Index(j), wildcardFault(host))
		}
	}
	r.checkProxyDefaults(at("defaultConfig"), m.GetDefaultConfig())
	return errorsOf(r.problems)
}

// checkProxyDefaults adds Errors for invalid values of the proxy settings that the control plane
// itself uses. These are proxyAdminPort, statusPort (0 is valid), concurrency, drainDuration and
// terminationDrainDuration.
func (r *report) checkProxyDefaults(at path, c *meshconfig.ProxyConfig) {
	r.checkSignedPort(at.Child("proxyAdminPort"), c.GetProxyAdminPort(), false)
	r.checkSignedPort(at.Child("statusPort"), c.GetStatusPort(), true)
	if n := c.GetConcurrency(); n.GetValue() < 0 {
		r.errorf(at.Child("concurrency"), "%d is negative", n.GetValue())
	}
	r.checkDurationOrZero(at.Child("drainDuration"), c.GetDrainDuration())
	r.checkDurationOrZero(at.Child("terminationDrainDuration"), c.GetTerminationDrainDuration())
}

// checkSignedPort adds an Error for an invalid port that the API defines as a signed number. If
// optional is set, 0 is allowed and means that there is no port.
func (r *report) checkSignedPort(at path, number int32, optional bool) {
	if number == 0 && optional {
		return
	}
	if number < 1 || number > maxPort {
		r.errorf(at, "port %d is not in the range 1..%d", number, maxPort)
	}
}

// trustDomainFault returns why a name is not a trust domain, as used in certificates, or "" if it
// is. SPIFFE allows "_" in addition to the characters of DNS names (SPIFFE ID, section 2.1).
func trustDomainFault(name string) string {
	if name == "" || domainFault(strings.ReplaceAll(name, "_", "x")) != "" {
		return "\"" + name + "\" is not a trust domain: want a name such as example.com"
	}
	return ""
}

// errorsOf returns the problems that are Errors.
func errorsOf(problems []Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		if p.Severity == Error {
			out = append(out, p)
		}
	}
	return out
}
