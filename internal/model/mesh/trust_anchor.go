package mesh

import "strings"

// TrustAnchor is a certificate to trust as control plane and agents say it to each other, in a text of ProxyConfig.caCertificatesPem: PEM, and
// before it, where it is not for all trust domains, a line that names those it is for. Whoever does not know the line passes over
// it, as over all text between certificates (RFC 7468, section 2): to Istio's agents it is for all.
type TrustAnchor struct {
	// Domains are the trust domains whose identities it vouches for; none: all.
	Domains []string
	PEM     string
}

const domainsLine = "Trust-Domains: "

// String gives the text.
func (a TrustAnchor) String() string {
	if len(a.Domains) == 0 {
		return a.PEM
	}
	return domainsLine + strings.Join(a.Domains, " ") + "\n" + a.PEM
}

// ParseTrustAnchor reads a text.
func ParseTrustAnchor(text string) TrustAnchor {
	rest, found := strings.CutPrefix(text, domainsLine)
	if !found {
		return TrustAnchor{PEM: text}
	}
	line, pem, _ := strings.Cut(rest, "\n")
	return TrustAnchor{Domains: strings.Fields(line), PEM: pem}
}
