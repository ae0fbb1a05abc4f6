package mesh

import "strings"

// TrustAnchor is a CA certificate in the form in which control plane and agents exchange it in
// ProxyConfig.caCertificatesPem: PEM, preceded by a line with trust domains if it is not for all of
// them. Parsers that do not know the line skip it, like all text between certificates (RFC 7468,
// section 2), so Istio's agents use the certificate for all trust domains.
type TrustAnchor struct {
	// Domains are the trust domains whose identities the certificate may sign; empty is all.
	Domains []string
	PEM     string
}

const domainsLine = "Trust-Domains: "

// String returns the text form: the domains, if there are any, in a line before the PEM.
func (a TrustAnchor) String() string {
	if len(a.Domains) == 0 {
		return a.PEM
	}
	return domainsLine + strings.Join(a.Domains, " ") + "\n" + a.PEM
}

// ParseTrustAnchor parses the text form. Text that does not begin with a line with trust domains is
// an anchor for all of them, as is an empty line of domains. The PEM is not validated.
func ParseTrustAnchor(text string) TrustAnchor {
	rest, found := strings.CutPrefix(text, domainsLine)
	if !found {
		return TrustAnchor{PEM: text}
	}
	line, pem, _ := strings.Cut(rest, "\n")
	return TrustAnchor{Domains: strings.Fields(line), PEM: pem}
}
