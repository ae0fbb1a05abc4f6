package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// AuthorityOptions are the settings of the certificate authority, and of who is believed to be who.
type AuthorityOptions struct {
	// Off serves no certificates. ENABLE_CA_SERVER=false.
	Off bool
	// Dir is where the root of the mesh, and the key of its workload tokens, are kept where there is no Kubernetes; empty: there is
	// no authority then, unless PluggedDir has one. --caDir.
	Dir string
	// PluggedDir is where operators mount an authority of their own, the Secret cacerts. ROOT_CA_DIR.
	PluggedDir string
	// Poll is how often the two are looked at for changes; 0: every two seconds.
	Poll time.Duration
	// SelfSignedInCacerts keeps a root of the control plane's making in the Secret cacerts, rather than in istio-ca-secret.
	// USE_CACERTS_FOR_SELF_SIGNED_CA.
	SelfSignedInCacerts bool
	// KeyType is that of keys which the control plane makes. CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE.
	KeyType ca.KeyType
	// Lifetimes are those of workloads' certificates. DEFAULT_WORKLOAD_CERT_TTL, MAX_WORKLOAD_CERT_TTL.
	Lifetimes ca.Lifetimes
	// RenewalGrace is how long after the removal of its last workload a service account may renew a certificate with the one that it has
	// (default one minute). Less than 0: for ever, as with istiod. MESHPILOT_CERT_RENEWAL_GRACE.
	RenewalGrace time.Duration
	// RootLifetime is that of a root of the control plane's making, Rotation how it is renewed.
	// CITADEL_SELF_SIGNED_CA_CERT_TTL, CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL, CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE,
	// CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR.
	RootLifetime time.Duration
	Rotation     ca.Rotation

	// External has certificates signed by others: ISTIOD_RA_KUBERNETES_API, by way of Kubernetes' CertificateSigningRequests; empty: the
	// control plane signs. EXTERNAL_CA. ExternalSigner is who signs there if a proxy names nobody, SignerDomain what comes before a
	// signer that one names, ExternalRoot the file with its roots. K8S_SIGNER, CERT_SIGNER_DOMAIN, ./etc/external-ca-cert/root-cert.pem.
	External, ExternalSigner, SignerDomain, ExternalRoot string

	// Hosts are further names that the control plane is called by, and addresses. ISTIOD_CUSTOM_HOST.
	Hosts []string
	// CertProvider is who signs the control plane's own certificate: istiod, which is its own authority, k8s.io/SIGNER, custom for files
	// in ./var/run/secrets/istiod, or none. PILOT_CERT_PROVIDER.
	CertProvider string

	// Audiences are those of tokens, of which one must be among them. TOKEN_AUDIENCES.
	Audiences []string
	// OIDC is an issuer of tokens besides Kubernetes, nil for none. JWT_RULE.
	OIDC *authenticate.OIDCRule
	// TrustedGateways are networks whose gateways are believed about their clients' certificates. TRUSTED_GATEWAY_CIDR.
	TrustedGateways []netip.Prefix
	// TrustedNodes are the service accounts, as NAMESPACE/NAME, that may ask for certificates for pods of their node.
	// CA_TRUSTED_NODE_ACCOUNTS.
	TrustedNodes []string
	// XDSAnyone takes xDS streams over TLS of clients that do not prove who they are (XDS_AUTH=false); XDSAnyIdentity lets those
	// that do claim to be other proxies (PILOT_ENABLE_XDS_IDENTITY_CHECK=false).
	XDSAnyone, XDSAnyIdentity bool
	// NoRootConfigMaps publishes no ConfigMap with the root. TRUST_DISTRIBUTION=off.
	NoRootConfigMaps bool
}

// externalKubernetes is the one value of EXTERNAL_CA.
const externalKubernetes = "ISTIOD_RA_KUBERNETES_API"

// defaultAuthority gives Istio's settings.
func defaultAuthority() AuthorityOptions {
	return AuthorityOptions{
		PluggedDir: "./etc/cacerts", RenewalGrace: time.Minute, Lifetimes: ca.DefaultLifetimes(), RootLifetime: 3650 * 24 * time.Hour,
		Rotation:     ca.Rotation{Interval: time.Hour, GracePercent: 20, Jitter: true},
		ExternalRoot: "./etc/external-ca-cert/root-cert.pem", CertProvider: "istiod", Audiences: []string{"istio-ca"},
	}
}

// The providers of the control plane's own certificate.
const (
	providerIstiod     = "istiod"
	providerCustom     = "custom"
	providerNone       = "none"
	providerKubernetes = "k8s.io/"
)

func (o AuthorityOptions) validate() error {
	var errs []error
	if l := o.Lifetimes; l.Default <= 0 || l.Max < l.Default {
		errs = append(errs, fmt.Errorf("DEFAULT_WORKLOAD_CERT_TTL %v, MAX_WORKLOAD_CERT_TTL %v: want 0 < default <= most", l.Default, l.Max))
	}
	if o.RootLifetime <= 0 {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_CA_CERT_TTL %v: must be positive", o.RootLifetime))
	}
	if p := o.Rotation.GracePercent; p < 0 || p > 100 {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE %d: want 0 to 100", p))
	}
	if n := o.KeyType.RSABits; n != 0 && (n < 2048 || n > 8192) {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE %d: want 2048 to 8192", n))
	}
	if o.External != "" && o.External != externalKubernetes {
		errs = append(errs, fmt.Errorf("EXTERNAL_CA %q: want %s", o.External, externalKubernetes))
	}
	switch p := o.CertProvider; {
	case p == "", p == providerIstiod, p == providerCustom, p == providerNone, strings.HasPrefix(p, providerKubernetes) && len(p) > len(providerKubernetes):
	default:
		errs = append(errs, fmt.Errorf("PILOT_CERT_PROVIDER %q: want istiod, k8s.io/SIGNER, custom or none", p))
	}
	if len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		errs = append(errs, errors.New("TOKEN_AUDIENCES: must not be empty"))
	}
	for _, a := range o.TrustedNodes {
		namespace, name, ok := strings.Cut(a, "/")
		if _, err := (spiffe.Account{TrustDomain: "any", Namespace: namespace, Name: name}).ID(); !ok || err != nil {
			errs = append(errs, fmt.Errorf("CA_TRUSTED_NODE_ACCOUNTS %q: want NAMESPACE/NAME", a))
		}
	}
	return errors.Join(errs...)
}

// hosts gives the DNS names of the control plane's Services, and those that operators have added, which come first.
func (o AuthorityOptions) hosts(namespace, revision string) []string {
	list := slices.Clone(o.Hosts)
	services := []string{"istiod", "istiod-remote", "istio-pilot"}
	if revision != "" && revision != "default" {
		services = append(services, "istiod-"+revision)
	}
	for _, s := range services {
		list = append(list, s+"."+namespace+".svc")
	}
	slices.Sort(list[len(o.Hosts):])
	return slices.Compact(list)
}
