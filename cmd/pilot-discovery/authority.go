package main

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/authority"
)

// applyAuthority sets o, the settings of the certificate authority and of client authentication,
// from Istio's variables. Unset booleans get their defaults; other variables that are unset or
// invalid leave o's values. TRUST_DISTRIBUTION=off disables PublishRoots, and TRUSTED_GATEWAY_CIDR
// adds to TrustedGateways. The first invalid value is recorded in e.err.
func (e *environment) applyAuthority(o *authority.Settings) {
	o.Enabled = e.boolOr("ENABLE_CA_SERVER", true)
	e.setText("ROOT_CA_DIR", &o.PluggedDir)
	o.SelfSignedInCacerts = e.boolOr("USE_CACERTS_FOR_SELF_SIGNED_CA", false)
	e.setInt("CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE", &o.KeyType.RSABits)
	e.setDuration("DEFAULT_WORKLOAD_CERT_TTL", &o.Lifetimes.Default)
	e.setDuration("MAX_WORKLOAD_CERT_TTL", &o.Lifetimes.Max)
	e.setDuration("MESHPILOT_CERT_RENEWAL_GRACE", &o.RenewalGrace)
	e.setDuration("CITADEL_SELF_SIGNED_CA_CERT_TTL", &o.RootLifetime)
	e.setDuration("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", &o.Rotation.Interval)
	e.setInt("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", &o.Rotation.GracePercent)
	o.Rotation.Jitter = e.boolOr("CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR", true)

	e.setText("EXTERNAL_CA", &o.External)
	e.setText("K8S_SIGNER", &o.ExternalSigner)
	e.setText("CERT_SIGNER_DOMAIN", &o.SignerDomain)
	e.setList("ISTIOD_CUSTOM_HOST", &o.Hosts)
	e.setText("PILOT_CERT_PROVIDER", &o.CertProvider)
	e.setList("TOKEN_AUDIENCES", &o.Audiences)
	e.applyOIDC(o)
	var gateways []string
	e.setList("TRUSTED_GATEWAY_CIDR", &gateways)
	for _, text := range gateways {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.addError("TRUSTED_GATEWAY_CIDR", text, "want ranges like 10.0.0.0/8")
			continue
		}
		o.TrustedGateways = append(o.TrustedGateways, p.Masked())
	}
	e.setList("CA_TRUSTED_NODE_ACCOUNTS", &o.TrustedNodes)
	o.AuthenticateXDS = e.boolOr("XDS_AUTH", true)
	o.CheckXDSIdentity = e.boolOr("PILOT_ENABLE_XDS_IDENTITY_CHECK", true)
	if v, _ := e.lookup("TRUST_DISTRIBUTION"); v == "off" {
		o.PublishRoots = false
	}
	e.setText("PILOT_CA_CERT_CONFIGMAP", &o.RootConfigMap)
	o.PublishRevocationLists = e.boolOr("PILOT_ENABLE_CA_CRL", true)
}

// applyOIDC sets o.OIDC, the token issuer besides Kubernetes, from JWT_RULE. Without that, and
// without KUBERNETES_SERVICE_HOST, it is TOKEN_ISSUER with AUDIENCE (default: o.Audiences).
// Otherwise, and without TOKEN_ISSUER, o is unchanged. An invalid JWT_RULE is an error of e.
func (e *environment) applyOIDC(o *authority.Settings) {
	if v, _ := e.lookup("JWT_RULE"); v != "" {
		rule, err := authenticate.ParseOIDCRule(v)
		if err != nil {
			e.addError("JWT_RULE", v, err.Error())
		}
		o.OIDC = &rule
		return
	}
	issuer, audience, host := "", "", ""
	e.setText("TOKEN_ISSUER", &issuer)
	e.setText("AUDIENCE", &audience)
	e.setText("KUBERNETES_SERVICE_HOST", &host)
	if issuer == "" || host != "" {
		return
	}
	o.OIDC = &authenticate.OIDCRule{Issuer: issuer, Audiences: o.Audiences}
	if audience != "" {
		o.OIDC.Audiences = []string{audience}
	}
}

// setList reads a comma-separated list and trims its parts, without empty ones. If the variable is
// unset or blank, it leaves *to unchanged.
func (e *environment) setList(name string, to *[]string) {
	v, ok := e.lookup(name)
	if !ok || strings.TrimSpace(v) == "" {
		return
	}
	*to = nil
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*to = append(*to, part)
		}
	}
}

// setInt reads a whole number. If the variable is unset, empty or invalid, it leaves *to unchanged;
// an invalid value is also an error of e.
func (e *environment) setInt(name string, to *int) {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		e.addError(name, v, "want a whole number")
		return
	}
	*to = n
}
