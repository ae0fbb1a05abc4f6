package config

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateMesh finds what must keep a mesh configuration from being used: what proxies could not be given, or what would put
// an end to identities. What it says of single things, such as a provider, is left to those who use that thing, who leave it out and
// report it. All of them are Errors, with the fields of meshconfig.MeshConfig.
func ValidateMesh(m *meshconfig.MeshConfig) []Problem {
	r := &report{object: &Config{}}
	at := func(name string) path { return field.NewPath(name) }
	r.signedPort(at("proxyListenPort"), m.GetProxyListenPort(), false)
	r.signedPort(at("proxyInboundListenPort"), m.GetProxyInboundListenPort(), false)
	r.signedPort(at("proxyHttpPort"), m.GetProxyHttpPort(), true)
	r.duration(at("connectTimeout"), m.GetConnectTimeout())
	r.duration(at("dnsRefreshRate"), m.GetDnsRefreshRate())
	r.durationOrZero(at("protocolDetectionTimeout"), m.GetProtocolDetectionTimeout())
	r.fault(at("trustDomain"), trustDomainFault(m.GetTrustDomain()))
	for i, alias := range m.GetTrustDomainAliases() {
		r.fault(at("trustDomainAliases").Index(i), trustDomainFault(alias))
	}
	r.localityLB(at("localityLbSetting"), m.GetLocalityLbSetting(), true)
	for i, settings := range m.GetServiceSettings() {
		for j, host := range settings.GetHosts() {
			r.fault(at("serviceSettings").Index(i).Child("hosts").Index(j), wildcardFault(host))
		}
	}
	r.proxyDefaults(at("defaultConfig"), m.GetDefaultConfig())
	return errorsOf(r.problems)
}

// proxyDefaults checks of the proxies' own settings what the control plane itself goes by.
func (r *report) proxyDefaults(at path, c *meshconfig.ProxyConfig) {
	r.signedPort(at.Child("proxyAdminPort"), c.GetProxyAdminPort(), false)
	r.signedPort(at.Child("statusPort"), c.GetStatusPort(), true)
	if n := c.GetConcurrency(); n.GetValue() < 0 {
		r.errorf(at.Child("concurrency"), "%d is negative", n.GetValue())
	}
	r.durationOrZero(at.Child("drainDuration"), c.GetDrainDuration())
	r.durationOrZero(at.Child("terminationDrainDuration"), c.GetTerminationDrainDuration())
}

// signedPort checks a port that the API has as a signed number; with optional, 0 means that there is none.
func (r *report) signedPort(at path, number int32, optional bool) {
	if number == 0 && optional {
		return
	}
	if number < 1 || number > maxPort {
		r.errorf(at, "port %d is not in the range 1..%d", number, maxPort)
	}
}

// trustDomainFault says what keeps a name from being a trust domain, as it is in certificates; "" if nothing does. Besides
// what DNS names have, SPIFFE allows "_" (SPIFFE ID, section 2.1).
func trustDomainFault(name string) string {
	if name == "" || domainFault(strings.ReplaceAll(name, "_", "x")) != "" {
		return "\"" + name + "\" is not a trust domain: want a name such as example.com"
	}
	return ""
}

func errorsOf(problems []Problem) []Problem {
	var out []Problem
	for _, p := range problems {
		if p.Severity == Error {
			out = append(out, p)
		}
	}
	return out
}
