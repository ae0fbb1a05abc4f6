package proxyconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/config"
)

// anchors gives the certificates that a mesh's settings say are to be trusted (MeshConfig.caCertificates, and
// caCertificatesPem of its defaultConfig), each as one block of PEM, sorted, without duplicates; and what is wrong with the
// others, without Key and Origin.
func anchors(m *meshconfig.MeshConfig) (list []string, problems []config.Problem) {
	note := func(field string, s config.Severity, reason string) {
		problems = append(problems, config.Problem{Field: field, Severity: s, Reason: reason})
	}
	add := func(field, text string) {
		found, err := certificates([]byte(text))
		if err != nil {
			note(field, config.Error, err.Error())
		}
		list = append(list, found...)
	}
	for i, c := range m.GetCaCertificates() {
		field := fmt.Sprintf("caCertificates[%d]", i)
		switch {
		case c.GetPem() != "":
			add(field+".pem", c.GetPem())
		case c.GetSpiffeBundleUrl() != "":
			note(field+".spiffeBundleUrl", config.Warning, "trust bundles are not fetched yet: the certificates there are not trusted")
		}
		if len(c.GetTrustDomains()) > 0 {
			note(field+".trustDomains", config.Warning, "has no effect: the certificate is trusted whatever the trust domain")
		}
	}
	for i, text := range m.GetDefaultConfig().GetCaCertificatesPem() {
		add(fmt.Sprintf("defaultConfig.caCertificatesPem[%d]", i), text)
	}
	slices.Sort(list)
	return slices.Compact(list), problems
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

// Problems gives what of the mesh's trusted certificates is not used, without Key and Origin.
func Problems(m *meshconfig.MeshConfig) []config.Problem {
	_, problems := anchors(m)
	return problems
}
