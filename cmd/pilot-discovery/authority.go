package main

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/authority"
)

// authority reads the settings of the certificate authority and of client authentication. The
// variables have Istio's names.
func (e *environment) authority(o *authority.Settings) {
	o.Enabled = e.boolean("ENABLE_CA_SERVER", true)
	e.text("ROOT_CA_DIR", &o.PluggedDir)
	o.SelfSignedInCacerts = e.boolean("USE_CACERTS_FOR_SELF_SIGNED_CA", false)
	e.integer("CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE", &o.KeyType.RSABits)
	e.duration("DEFAULT_WORKLOAD_CERT_TTL", &o.Lifetimes.Default)
	e.duration("MAX_WORKLOAD_CERT_TTL", &o.Lifetimes.Max)
	e.duration("MESHPILOT_CERT_RENEWAL_GRACE", &o.RenewalGrace)
	e.duration("CITADEL_SELF_SIGNED_CA_CERT_TTL", &o.RootLifetime)
	e.duration("CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", &o.Rotation.Interval)
	e.integer("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", &o.Rotation.GracePercent)
	o.Rotation.Jitter = e.boolean("CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR", true)

	e.text("EXTERNAL_CA", &o.External)
	e.text("K8S_SIGNER", &o.ExternalSigner)
	e.text("CERT_SIGNER_DOMAIN", &o.SignerDomain)
	e.list("ISTIOD_CUSTOM_HOST", &o.Hosts)
	e.text("PILOT_CERT_PROVIDER", &o.CertProvider)
	e.list("TOKEN_AUDIENCES", &o.Audiences)
	if v, _ := e.lookup("JWT_RULE"); v != "" {
		rule, err := authenticate.ParseOIDCRule(v)
		if err != nil {
			e.bad("JWT_RULE", v, err.Error())
		}
		o.OIDC = &rule
	}
	var gateways []string
	e.list("TRUSTED_GATEWAY_CIDR", &gateways)
	for _, text := range gateways {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.bad("TRUSTED_GATEWAY_CIDR", text, "want ranges like 10.0.0.0/8")
			continue
		}
		o.TrustedGateways = append(o.TrustedGateways, p.Masked())
	}
	e.list("CA_TRUSTED_NODE_ACCOUNTS", &o.TrustedNodes)
	o.AuthenticateXDS = e.boolean("XDS_AUTH", true)
	o.CheckXDSIdentity = e.boolean("PILOT_ENABLE_XDS_IDENTITY_CHECK", true)
	if v, _ := e.lookup("TRUST_DISTRIBUTION"); v == "off" {
		o.PublishRoots = false
	}
}

// list reads a comma-separated list. If the variable is unset or empty, it leaves to unchanged.
func (e *environment) list(name string, to *[]string) {
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

func (e *environment) integer(name string, to *int) {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		e.bad(name, v, "want a whole number")
		return
	}
	*to = n
}
