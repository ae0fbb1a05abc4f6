package cli

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strconv"
	"time"
)

// The field of a secret in its entry of a dump, with a prefix for secrets that are not in use yet.
const (
	warmingPrefix = "warming "
	activeSecret  = "secret"
	warmingSecret = warmingPrefix + activeSecret
)

// secret is a secret of a dump. Dumps contain certificates, but no private keys.
type secret struct {
	original
	Name           string `json:"name"`
	TLSCertificate struct {
		CertificateChain dataSource `json:"certificateChain"`
	} `json:"tlsCertificate"`
	ValidationContext struct {
		TrustedCA dataSource `json:"trustedCa"`
	} `json:"validationContext"`

	warming bool
}

type dataSource struct {
	InlineBytes  []byte `json:"inlineBytes"`
	InlineString string `json:"inlineString"`
}

// contents returns the inline string, or if it is empty the inline bytes. Files and environment
// variables are not read.
func (d dataSource) contents() []byte {
	if d.InlineString != "" {
		return []byte(d.InlineString)
	}
	return d.InlineBytes
}

// secretTable returns the certificates of the secrets named s.name, or of all if it is empty, in
// istioctl's columns. If a secret has trusted certificates, only these are shown. A secret without
// certificates has one row. Secrets that are not active yet have the status WARMING.
func secretTable(d *dump, s selection) answer {
	x := answer{
		header: "RESOURCE NAME\tTYPE\tSTATUS\tVALID CERT\tSERIAL NUMBER\tNOT AFTER\tNOT BEFORE",
		none:   "no secrets",
	}
	list := []json.RawMessage{}
	for _, secret := range d.Secrets {
		if s.name != "" && secret.Name != s.name {
			continue
		}
		list = append(list, secret.raw)
		status := "ACTIVE"
		if secret.warming {
			status = "WARMING"
		}
		kind, text := "Cert Chain", secret.TLSCertificate.CertificateChain.contents()
		if roots := secret.ValidationContext.TrustedCA.contents(); len(roots) > 0 {
			kind, text = "CA", roots
		}
		rows := certificateRows(text, s.now)
		if len(rows) == 0 {
			rows = [][]string{{"-", "-", "-", "-"}}
		}
		for _, row := range rows {
			x.rows = append(x.rows, append([]string{secret.Name, kind, status}, row...))
		}
	}
	x.whole = list
	return x
}

// certificateRows returns a row for each block of a PEM text: whether the certificate is valid at
// now, its serial number, end and begin. A block that is no certificate has a row with the error.
// Text without blocks has no rows.
func certificateRows(text []byte, now time.Time) [][]string {
	var rows [][]string
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return rows
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			rows = append(rows, []string{"false", "-", fmt.Sprintf("invalid: %v", err), "-"})
			continue
		}
		rows = append(rows, []string{
			strconv.FormatBool(now.After(c.NotBefore) && now.Before(c.NotAfter)),
			fmt.Sprintf("%x", c.SerialNumber),
			c.NotAfter.UTC().Format(time.RFC3339),
			c.NotBefore.UTC().Format(time.RFC3339),
		})
	}
}
