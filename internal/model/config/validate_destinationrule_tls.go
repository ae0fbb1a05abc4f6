package config

import (
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// checkClientTLS adds Errors for invalid TLS settings of connections to a service or an unknown
// mode, and Warnings for fields that the mode ignores; nil is valid. MUTUAL without credentialName
// requires clientCertificate and privateKey. SIMPLE and MUTUAL allow neither files beside
// credentialName nor insecureSkipVerify beside caCertificates or subjectAltNames. An empty
// subjectAltName is a Warning. DISABLE and ISTIO_MUTUAL only have Warnings.
func (r *report) checkClientTLS(at path, tls *networking.ClientTLSSettings) {
	if tls == nil {
		return
	}
	files := tls.GetClientCertificate() != "" || tls.GetPrivateKey() != "" || tls.GetCaCertificates() != "" ||
		tls.GetCaCrl() != ""
	switch tls.GetMode() {
	case networking.ClientTLSSettings_MUTUAL:
		if tls.GetCredentialName() == "" {
			r.requireValue(at.Child("clientCertificate"), tls.GetClientCertificate())
			r.requireValue(at.Child("privateKey"), tls.GetPrivateKey())
		}
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		if files || tls.GetCredentialName() != "" {
			r.warnf(at, "mode ISTIO_MUTUAL uses the workload's own certificate: the certificates set here are ignored")
		}
		if tls.GetInsecureSkipVerify().GetValue() {
			r.warnf(at.Child("insecureSkipVerify"),
				"is ignored in mode ISTIO_MUTUAL: proxies always check each other's certificates")
		}
		return
	case networking.ClientTLSSettings_DISABLE:
		if !proto.Equal(tls, new(networking.ClientTLSSettings)) {
			r.warnf(at.Child("mode"),
				"is DISABLE, which it is also where it is not set: everything else here is ignored")
		}
		return
	case networking.ClientTLSSettings_SIMPLE:
		if tls.GetClientCertificate() != "" || tls.GetPrivateKey() != "" {
			r.warnf(at.Child("clientCertificate"),
				"is ignored in mode SIMPLE: it is mode MUTUAL that shows the server a certificate")
		}
	default:
		r.errorf(at.Child("mode"), "unknown mode %d", tls.GetMode())
	}
	if files && tls.GetCredentialName() != "" {
		r.errorf(at.Child("credentialName"),
			"must not be set together with clientCertificate, privateKey, caCertificates or caCrl")
	}
	if tls.GetInsecureSkipVerify().GetValue() && (tls.GetCaCertificates() != "" || len(tls.GetSubjectAltNames()) > 0) {
		r.errorf(at.Child("insecureSkipVerify"), "must not be true together with caCertificates or subjectAltNames")
	}
	for i, name := range tls.GetSubjectAltNames() {
		if name == "" {
			r.warnf(at.Child("subjectAltNames").Index(i), "the empty name matches no certificate")
		}
	}
}
