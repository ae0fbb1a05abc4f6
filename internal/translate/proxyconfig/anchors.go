package proxyconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// anchors are certificates to trust, each as one block of PEM.
type anchors struct {
	list     []mesh.TrustAnchor
	problems []config.Problem // without Key and Origin
}

func (a *anchors) note(field string, s config.Severity, reason string) {
	a.problems = append(a.problems, config.Problem{Field: field, Severity: s, Reason: reason})
}

// add takes the certificates of a text, if all of them can be used.
func (a *anchors) add(field, text string, domains []string) {
	found, err := certificates([]byte(text))
	if err != nil {
		a.note(field, config.Error, err.Error())
	}
	for _, one := range found {
		a.list = append(a.list, mesh.TrustAnchor{Domains: domains, PEM: one})
	}
}

// anchorsOf gives the certificates that a mesh's settings say are to be trusted (MeshConfig.caCertificates, and
// caCertificatesPem of its defaultConfig), and what is wrong with the others. Those of trust bundles are as they are known.
func anchorsOf(m *meshconfig.MeshConfig, bundles map[string]string) anchors {
	var a anchors
	for i, c := range m.GetCaCertificates() {
		field := fmt.Sprintf("caCertificates[%d]", i)
		domains := slices.Sorted(slices.Values(c.GetTrustDomains()))
		if reason := badDomain(domains); reason != "" { // then it is for nobody rather than for everybody
			a.note(field+".trustDomains", config.Error, reason+": the certificates are not used")
			continue
		}
		address := c.GetSpiffeBundleUrl()
		switch roots := bundles[address]; {
		case c.GetPem() != "":
			a.add(field+".pem", c.GetPem(), domains)
		case address == "":
		case !strings.HasPrefix(address, "https://"):
			a.note(field+".spiffeBundleUrl", config.Error, "must be an address of https: who answers is known by its certificate there")
		case roots != "":
			a.add(field+".spiffeBundleUrl", roots, domains)
		}
	}
	for i, text := range m.GetDefaultConfig().GetCaCertificatesPem() {
		a.add(fmt.Sprintf("defaultConfig.caCertificatesPem[%d]", i), text, nil)
	}
	return a
}

func badDomain(domains []string) string {
	for _, d := range domains {
		if err := spiffe.CheckTrustDomain(d); err != nil {
			return fmt.Sprintf("%.100q: %v", d, err)
		}
	}
	return ""
}

// Addresses gives where the trust bundles are that a mesh names, sorted.
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

// texts gives what is to be trusted as agents are told it, sorted, each certificate once. If all are for all trust domains, as by
// default, nothing is said of those. Else it is said of each: the mesh's own roots vouch for the mesh's own trust domain and its aliases,
// and a certificate for which none are named vouches for all that are named anywhere.
func texts(s *snapshot.Settings) []string {
	list := anchorsOf(s.Mesh, s.Bundles).list
	limited := slices.ContainsFunc(list, func(a mesh.TrustAnchor) bool { return len(a.Domains) > 0 })
	for _, root := range s.Roots { // of our own authority, so good ones
		found, _ := certificates([]byte(root))
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

// certificates takes apart PEM that may hold several certificates. If one of them cannot be used none is: half of a bundle
// would look like the whole.
func certificates(text []byte) ([]string, error) {
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
		_ = pem.Encode(&b, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a buffer takes everything
		list = append(list, b.String())
	}
	if list == nil {
		return nil, fmt.Errorf("has no certificate in PEM")
	}
	return list, nil
}

// Problems gives what of the mesh's trusted certificates is not used, without Key and Origin. What is wrong with trust bundles, who
// fetches them says.
func Problems(m *meshconfig.MeshConfig) []config.Problem { return anchorsOf(m, nil).problems }
