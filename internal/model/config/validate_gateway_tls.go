package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// certificateSources contains the places from which a server reads its certificates. Only one of
// them may be set.
type certificateSources struct{ files, list, credential, credentials bool }

// serverCertificates returns which sources of certificates tls, which may be nil, sets. files is
// set by serverCertificate or privateKey, list by tlsCertificates, credential by credentialName,
// and credentials by credentialNames.
func serverCertificates(tls *networking.ServerTLSSettings) certificateSources {
	return certificateSources{
		files:       tls.GetServerCertificate() != "" || tls.GetPrivateKey() != "",
		list:        len(tls.GetTlsCertificates()) > 0,
		credential:  tls.GetCredentialName() != "",
		credentials: len(tls.GetCredentialNames()) > 0,
	}
}

// isSet reports whether any source is set.
func (c certificateSources) isSet() bool { return c != certificateSources{} }

// count returns the number of sources that are set.
func (c certificateSources) count() int {
	n := 0
	for _, there := range []bool{c.files, c.list, c.credential, c.credentials} {
		if there {
			n++
		}
	}
	return n
}

// cipherSuites returns the names that ServerTLSSettings.cipherSuites may contain.
func cipherSuites() []string {
	return []string{
		"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
		"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
		"ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
		"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "DES-CBC3-SHA",
	}
}

// KnownCipherSuites returns the names that Envoy supports, without duplicates and in the order of
// names. Envoy refuses a listener with any other name.
func KnownCipherSuites(names []string) []string {
	var known []string
	for _, n := range names {
		if slices.Contains(cipherSuites(), n) && !slices.Contains(known, n) {
			known = append(known, n)
		}
	}
	return known
}

// checkServerTLS adds Errors for invalid TLS settings of a server of a Gateway or of an ingress
// listener of a Sidecar. These are several sources of certificates, more than two in a list,
// certificates that the mode does not allow or lacks, caCrl beside credentialName or in the mode
// SIMPLE, invalid hashes, and an unknown mode. Other fields without effect in the mode, TLS
// versions that exclude all clients, and unknown cipher suites are Warnings.
func (r *report) checkServerTLS(at path, tls *networking.ServerTLSSettings) {
	sources := serverCertificates(tls)
	if sources.count() > 1 {
		r.errorf(at,
			"only one of serverCertificate with privateKey, tlsCertificates, credentialName and credentialNames may be set")
	}
	r.checkMaxItems(at.Child("credentialNames"), len(tls.GetCredentialNames()), 2)
	r.checkMaxItems(at.Child("tlsCertificates"), len(tls.GetTlsCertificates()), 2)
	for i, name := range tls.GetCredentialNames() {
		r.requireValue(at.Child("credentialNames").Index(i), name)
	}
	switch tls.GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH: // see warnIdleTLS
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		if sources.isSet() || tls.GetCaCertificates() != "" {
			r.errorf(at, "mode ISTIO_MUTUAL uses the workload's own certificate: no other may be set")
		}
	case networking.ServerTLSSettings_SIMPLE:
		r.checkTerminatingTLS(at, tls, sources, false)
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		r.checkTerminatingTLS(at, tls, sources, true)
	default:
		r.errorf(at.Child("mode"), "unknown mode %d", tls.GetMode())
	}
	if tls.GetCaCrl() != "" {
		if sources.credential {
			r.errorf(at.Child("caCrl"), "must not be set together with credentialName: the credential has the list")
		}
		if tls.GetMode() == networking.ServerTLSSettings_SIMPLE {
			r.errorf(at.Child("caCrl"), "must not be set for mode SIMPLE, which asks clients for no certificate")
		}
	}
	r.warnIdleTLS(at, tls)
	r.checkTLSVersions(at, tls)
	r.checkCertificateHashes(at, tls)
}

// warnIdleTLS adds one Warning for all fields that are set and have no effect in the mode. In the
// modes MUTUAL and OPTIONAL_MUTUAL all have an effect.
func (r *report) warnIdleTLS(at path, tls *networking.ServerTLSSettings) {
	clients := []tlsField{
		{
			"caCertificates",
			tls.GetCaCertificates() != "",
		},
		{"caCertCredentialName", tls.GetCaCertCredentialName() != ""},
		{"caCrl", tls.GetCaCrl() != ""},
		{"subjectAltNames", len(tls.GetSubjectAltNames()) > 0},
		{
			"verifyCertificateSpki",
			len(tls.GetVerifyCertificateSpki()) > 0,
		},
		{"verifyCertificateHash", len(tls.GetVerifyCertificateHash()) > 0},
		{"insecureSkipVerify", tls.GetInsecureSkipVerify() != nil},
	}
	handshake := []tlsField{
		{
			"minProtocolVersion",
			tls.GetMinProtocolVersion() != 0,
		},
		{"maxProtocolVersion", tls.GetMaxProtocolVersion() != 0},
		{"cipherSuites", len(tls.GetCipherSuites()) > 0},
	}
	switch mode := tls.GetMode(); mode {
	case networking.ServerTLSSettings_SIMPLE:
		idle := slices.DeleteFunc(clients, func(f tlsField) bool { return f.name == "caCrl" }) // an Error
		r.warnIdle(at, idle, "mode SIMPLE asks clients for no certificate")
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		certificates := []tlsField{{"the certificates", serverCertificates(tls).isSet()}}
		r.warnIdle(
			at,
			slices.Concat(certificates, clients, handshake),
			fmt.Sprintf("mode %s does not terminate TLS", mode),
		)
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		r.warnIdle(at, append(clients[4:], handshake...), "mode ISTIO_MUTUAL is as the mesh has it")
	}
}

// tlsField is a field of ServerTLSSettings and whether it is set.
type tlsField struct {
	name string
	set  bool
}

// warnIdle adds one Warning for all fields that are set, because the mode is their common cause. It
// adds none if no field is set.
func (r *report) warnIdle(at path, fields []tlsField, reason string) {
	var names []string
	for _, f := range fields {
		if f.set {
			names = append(names, f.name)
		}
	}
	if len(names) > 0 {
		r.warnf(at, "%s: without effect here: %s", reason, strings.Join(names, ", "))
	}
}

// checkTerminatingTLS adds Errors for a missing serverCertificate or privateKey, in each entry of
// tlsCertificates if sources.list is set. With mutual, missing CA certificates are an Error too:
// neither caCertificates, also of an entry, nor caCertCredentialName. It checks nothing if
// credentialName or credentialNames is set, because it cannot read Secrets.
func (r *report) checkTerminatingTLS(at path, tls *networking.ServerTLSSettings, sources certificateSources,
	mutual bool) {
	if sources.credential || sources.credentials {
		return
	}
	if sources.list {
		for i, certificate := range tls.GetTlsCertificates() {
			here := at.Child("tlsCertificates").Index(i)
			r.requireValue(here.Child("serverCertificate"), certificate.GetServerCertificate())
			r.requireValue(here.Child("privateKey"), certificate.GetPrivateKey())
		}
	} else {
		r.requireValue(at.Child("serverCertificate"), tls.GetServerCertificate())
		r.requireValue(at.Child("privateKey"), tls.GetPrivateKey())
	}
	inList := slices.ContainsFunc(tls.GetTlsCertificates(), func(c *networking.ServerTLSSettings_TLSCertificate) bool {
		return c.GetCaCertificates() != ""
	})
	if mutual && tls.GetCaCertificates() == "" && tls.GetCaCertCredentialName() == "" && !inList {
		r.errorf(at.Child("caCertificates"),
			"is required for mode %s, to check the certificates of clients", tls.GetMode())
	}
}

// checkTLSVersions adds Warnings for TLS versions with which no client can connect (the lowest
// above the highest, or below 1.2 without cipher suites), and for unknown or duplicate cipher
// suites. It adds no Errors.
func (r *report) checkTLSVersions(at path, tls *networking.ServerTLSSettings) {
	lowest, highest := tls.GetMinProtocolVersion(), tls.GetMaxProtocolVersion()
	if lowest != 0 && highest != 0 && lowest > highest {
		r.warnf(at.Child("minProtocolVersion"),
			"%s is above maxProtocolVersion %s: no client can connect", lowest, highest)
	}
	if (lowest == networking.ServerTLSSettings_TLSV1_0 || lowest == networking.ServerTLSSettings_TLSV1_1) &&
		len(tls.GetCipherSuites()) == 0 {
		r.warnf(at.Child("minProtocolVersion"),
			"%s needs cipherSuites: none of the default ones is for versions below TLSV1_2", lowest)
	}
	seen := map[string]bool{}
	for i, suite := range tls.GetCipherSuites() {
		switch here := at.Child("cipherSuites").Index(i); {
		case !slices.Contains(cipherSuites(), suite):
			r.warnf(here, "unknown cipher suite %q is ignored", suite)
		case seen[suite]:
			r.warnf(here, "cipher suite %q is there twice", suite)
		}
		seen[suite] = true
	}
}

// checkCertificateHashes adds an Error for each invalid SHA-256 hash that pins client certificates:
// of keys in base64, of certificates in hexadecimal. A hexadecimal hash may contain colons.
func (r *report) checkCertificateHashes(at path, tls *networking.ServerTLSSettings) {
	for i, text := range tls.GetVerifyCertificateSpki() {
		if sum, err := base64.StdEncoding.DecodeString(text); err != nil || len(sum) != 32 {
			r.errorf(at.Child("verifyCertificateSpki").Index(i), "%q is not a SHA-256 hash in base64", text)
		}
	}
	for i, text := range tls.GetVerifyCertificateHash() {
		if sum, err := hex.DecodeString(strings.ReplaceAll(text, ":", "")); err != nil || len(sum) != 32 {
			r.errorf(at.Child("verifyCertificateHash").Index(i), "%q is not a SHA-256 hash in hexadecimal", text)
		}
	}
}
