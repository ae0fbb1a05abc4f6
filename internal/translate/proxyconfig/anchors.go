package proxyconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// anchors are trusted certificates, each as one block of PEM, with the Problems of unusable ones.
type anchors struct {
	list     []mesh.TrustAnchor
	problems []config.Problem // without Key and Origin
}

// addProblem adds a Problem with code InvalidCredential about a field of the mesh settings.
func (a *anchors) addProblem(field string, s config.Severity, reason string) {
	a.problems = append(a.problems,
		config.Problem{Code: code.InvalidCredential, Field: field, Severity: s, Reason: reason})
}

// addCertificates adds the certificates in a PEM text, for the trust domains domains; nil sets no
// limit. If one of them is unusable, or there is none (parseCertificates), it adds no certificate,
// and an Error at field.
func (a *anchors) addCertificates(field, text string, domains []string) {
	found, err := parseCertificates([]byte(text))
	if err != nil {
		a.addProblem(field, config.Error, err.Error())
	}
	for _, one := range found {
		a.list = append(a.list, mesh.TrustAnchor{Domains: domains, PEM: one})
	}
}

// anchorsOf returns the trusted certificates in a mesh's settings (MeshConfig.caCertificates, and
// caCertificatesPem of its defaultConfig), with Errors for unusable ones. An entry with an invalid
// trust domain is not used at all, nor a bundle URL that is not https; PEM in an entry takes
// precedence over its URL. bundles are the trust bundles that have been fetched, as PEM, by
// address; missing ones are skipped without a Problem.
func anchorsOf(m *meshconfig.MeshConfig, bundles map[string]string) anchors {
	var a anchors
	for i, c := range m.GetCaCertificates() {
		field := fmt.Sprintf("caCertificates[%d]", i)
		domains := slices.Sorted(slices.Values(c.GetTrustDomains()))
		// Such certificates are trusted for no domain, not for all.
		if reason := badDomain(domains); reason != "" {
			a.addProblem(field+".trustDomains", config.Error, reason+": the certificates are not used")
			continue
		}
		address := c.GetSpiffeBundleUrl()
		switch roots := bundles[address]; {
		case c.GetPem() != "":
			a.addCertificates(field+".pem", c.GetPem(), domains)
		case address == "":
		case !strings.HasPrefix(address, "https://"):
			a.addProblem(field+".spiffeBundleUrl", config.Error,
				"must be an https URL: only its certificate authenticates the server")
		case roots != "":
			a.addCertificates(field+".spiffeBundleUrl", roots, domains)
		}
	}
	for i, text := range m.GetDefaultConfig().GetCaCertificatesPem() {
		a.addCertificates(fmt.Sprintf("defaultConfig.caCertificatesPem[%d]", i), text, nil)
	}
	return a
}

// badDomain returns why the first invalid one of domains is not a trust domain, or "" if all are.
func badDomain(domains []string) string {
	for _, d := range domains {
		if err := spiffe.CheckTrustDomain(d); err != nil {
			return fmt.Sprintf("%.100q: %v", d, err)
		}
	}
	return ""
}

// Addresses returns the https addresses of SPIFFE trust bundles that a mesh names, sorted, without
// duplicates.
func Addresses(m *meshconfig.MeshConfig) []string {
	var list []string
	for _, c := range m.GetCaCertificates() {
		if address := c.GetSpiffeBundleUrl(); strings.HasPrefix(address, "https://") {
			list = append(list, address)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// encodeAnchors returns all usable trusted certificates, with the mesh's own roots, in the form
// that agents parse, sorted, without duplicates. If no certificate in MeshConfig is limited to
// trust domains, which is the default, none has domains. Otherwise each has its domains: the mesh's
// own roots have the mesh's trust domain and its aliases, and a certificate without domains has all
// that are named anywhere.
func encodeAnchors(s *snapshot.Settings) []string {
	list := anchorsOf(s.Mesh, s.Bundles).list
	limited := slices.ContainsFunc(list, func(a mesh.TrustAnchor) bool { return len(a.Domains) > 0 })
	for _, root := range s.Roots { // Roots of our own authority are always valid.
		found, _ := parseCertificates([]byte(root))
		for _, one := range found {
			list = append(list, mesh.TrustAnchor{Domains: s.TrustDomains(), PEM: one})
		}
	}
	domains := map[string][]string{} // by certificate
	every := s.TrustDomains()
	for _, a := range list {
		every = append(every, a.Domains...)
	}
	for _, a := range list {
		if len(a.Domains) == 0 {
			a.Domains = every
		}
		domains[a.PEM] = append(domains[a.PEM], a.Domains...)
	}
	out := make([]string, 0, len(domains))
	for pem, of := range domains {
		a := mesh.TrustAnchor{PEM: pem}
		if limited {
			slices.Sort(of)
			a.Domains = slices.Compact(slices.Clone(of))
		}
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

// parseCertificates splits a PEM text of certificates of authorities into one text for each. If a
// block is not the certificate of an authority, or there is no block, it returns an error and no
// certificate. Half of a bundle would look complete.
func parseCertificates(text []byte) ([]string, error) {
	var list []string
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("has a %s where a certificate belongs; it is not used", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("is not a certificate, and is not used: %w", err)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("the certificate of %q is not that of an authority, and is not used", c.Subject)
		}
		var b bytes.Buffer
		// A buffer never fails.
		_ = pem.Encode(&b, &pem.Block{Type: block.Type, Bytes: block.Bytes})
		list = append(list, b.String())
	}
	if list == nil {
		return nil, fmt.Errorf("has no certificate in PEM")
	}
	return list, nil
}

// Problems returns an Error for each unusable trusted certificate, trust domain and bundle URL of
// the mesh's settings, without Key and Origin, or nil. Problems of the content of trust bundles are
// reported by the component that fetches them.
func Problems(m *meshconfig.MeshConfig) []config.Problem { return anchorsOf(m, nil).problems }
