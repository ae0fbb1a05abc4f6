package certificate

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"google.golang.org/protobuf/types/known/durationpb"
)

// patience is how long a new cluster or listener waits for a secret. The control plane answers at once or, where there is no
// such secret, not at all: then only what needs it fails, and what came with it need not wait.
const patience = 5 * time.Second

// Secret asks for a secret over ADS, by its SDS name.
func Secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		InitialFetchTimeout:   durationpb.New(patience),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

// Validation says which certificates of the other side are taken, but for the authorities: those that have one of the names,
// if there are any, and that are not in the list of revoked ones, a file on the proxy's disk or "".
func Validation(names []string, revoked string) *tlsv3.CertificateValidationContext {
	v := new(tlsv3.CertificateValidationContext)
	for _, name := range names {
		v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: sanType(name), Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		})
	}
	if revoked != "" {
		v.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: revoked}}
	}
	return v
}

// sanType says what kind of name a subjectAltName of the API is, which the API does not.
func sanType(name string) tlsv3.SubjectAltNameMatcher_SanType {
	switch _, err := netip.ParseAddr(name); {
	case err == nil:
		return tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	case strings.Contains(name, "://"):
		return tlsv3.SubjectAltNameMatcher_URI
	case strings.Contains(name, "@"):
		return tlsv3.SubjectAltNameMatcher_EMAIL
	default:
		return tlsv3.SubjectAltNameMatcher_DNS
	}
}

// Checked has certificates of the other side checked: against the authorities of the secret trust, an SDS name, and by v.
func Checked(trust string, v *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: v, ValidationContextSdsSecretConfig: Secret(trust),
		},
	}
}
