package environment

import (
	"strconv"
	"strings"
)

// later refuses or reports the variables of parts that the agent does not have yet.
func (r *reader) later(e *Environment) {
	// A workload relies on these when they are set: starting all the same would leave it without them.
	for _, needed := range []struct{ name, what string }{
		{"GRPC_XDS_BOOTSTRAP", "a bootstrap file for gRPC without a proxy"},
		{"ISTIO_META_DNS_CAPTURE", "the DNS proxy"},
		{"ISTIO_META_ENABLE_DNS_SERVER", "the DNS proxy"},
		{"FILE_MOUNTED_CERTS", "workload certificates"},
		{"OUTPUT_CERTS", "workload certificates"},
		{"PROV_CERT", "workload certificates"},
	} {
		value, ok := r.text(needed.name)
		if on, err := strconv.ParseBool(value); !ok || err == nil && !on {
			continue
		}
		r.fail(needed.name, "asks for %s, which this agent does not have yet", needed.what)
	}
	// Pod templates set these whether they are needed or not. Without identity and DNS nothing depends on them.
	var unused []string
	for _, name := range []string{
		"CA_ADDR", "CA_PROVIDER", "CA_ROOT_CA", "DNS_PROXY_ADDR", "ECC_CURVE", "ECC_SIGNATURE_ALGORITHM", "ISTIOD_SAN",
		"ISTIO_KUBE_APP_PROBERS", "JWT_POLICY", "PILOT_CERT_PROVIDER", "PKCS8_KEY", "SECRET_GRACE_PERIOD_RATIO",
		"SECRET_TTL", "WORKLOAD_RSA_KEY_SIZE", "XDS_AUTH_PROVIDER", "XDS_ROOT_CA",
	} {
		if _, ok := r.text(name); ok {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		e.Warnings = append(e.Warnings, "environment variables without effect yet: "+strings.Join(unused, ", "))
	}
}
