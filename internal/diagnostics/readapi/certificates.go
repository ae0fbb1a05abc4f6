package readapi

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// CertificateUse is what a certificate is for.
type CertificateUse string

// The uses of certificates, in the order of CertificateList.
const (
	RootCertificate     CertificateUse = "root"
	SigningCertificate  CertificateUse = "signing"
	ServingCertificate  CertificateUse = "serving"
	GatewayCertificate  CertificateUse = "gateway"
	TrustedCertificate  CertificateUse = "trusted"
	WorkloadCertificate CertificateUse = "workload"
)

// CertificateState is whether a certificate is valid now.
type CertificateState string

// The states of a certificate, the worst first.
const (
	CertificateExpired CertificateState = "expired"
	// CertificateNotYetValid: its validity has not begun.
	CertificateNotYetValid CertificateState = "not yet valid"
	// CertificateExpiring: a tenth of its lifetime is left, at most expiryNotice.
	CertificateExpiring CertificateState = "expiring"
	CertificateValid    CertificateState = "valid"
)

// expiryNotice is the longest time before the end of a certificate during which it is expiring.
const expiryNotice = 30 * 24 * time.Hour

// maxCertificateNames limits the names of a certificate that are listed.
const maxCertificateNames = 10

// Certificate is a certificate without its key.
type Certificate struct {
	Use       CertificateUse   `json:"use" enum:"root,signing,serving,gateway,trusted,workload" doc:"root: a trust anchor of the mesh; signing: of the authority; serving: of the control plane's own ports; gateway: with its key in a Secret; trusted: authorities in a Secret or ConfigMap; workload: issued to an identity."`
	Name      string           `json:"name" doc:"The identity of a workload, or else the subject, or the first of its names."`
	Object    *Source          `json:"object,omitempty" doc:"The Secret or ConfigMap with the certificate."`
	Names     []string         `json:"names,omitempty" doc:"Some of the DNS names, IP addresses and URIs in it."`
	Issuer    string           `json:"issuer,omitempty"`
	Serial    string           `json:"serial"`
	NotBefore time.Time        `json:"notBefore"`
	NotAfter  time.Time        `json:"notAfter"`
	State     CertificateState `json:"state" enum:"expired,not yet valid,expiring,valid" doc:"expiring: a tenth of its lifetime is left, at most 30 days. All certificates of the mesh are renewed before that."`
	From      []Source         `json:"from,omitempty" doc:"The Gateways and DestinationRules that may name the object."`
	Replica   string           `json:"replica,omitempty" doc:"The replica that serves with it, or that issued it."`
	// Namespace is that of the callers that may see it; "" for everybody.
	Namespace string `json:"namespace,omitempty" doc:"Namespace of the object or identity."`
}

// CertificateList are the certificates that the control plane knows.
type CertificateList struct {
	Certificates []Certificate `json:"certificates" doc:"By use, then the first to expire first."`
	Omitted      int           `json:"omitted,omitempty" doc:"Further certificates of Secrets and workloads, which are not listed."`
	Unanswered   []Unanswered  `json:"unanswered,omitempty" doc:"Replicas whose certificates are missing."`
}

// CertificatesRequest selects certificates.
type CertificatesRequest struct {
	Aggregation
	Name []string `query:"name,explode" doc:"Only those of these names, or in the object NAMESPACE/NAME."`
}

// maxCertificates limits the certificates in an answer.
const maxCertificates = 5_000

// NewCertificate returns the description of c, without State and From. Its Name is the subject, or
// else the first of its names. It has at most maxCertificateNames names.
func NewCertificate(use CertificateUse, c *x509.Certificate) Certificate {
	x := Certificate{
		Use: use, Name: c.Subject.String(), Issuer: c.Issuer.String(), Serial: c.SerialNumber.Text(16),
		NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(), Names: slices.Clone(c.DNSNames),
	}
	for _, ip := range c.IPAddresses {
		x.Names = append(x.Names, ip.String())
	}
	for _, u := range c.URIs {
		x.Names = append(x.Names, u.String())
	}
	x.Names = x.Names[:min(len(x.Names), maxCertificateNames)]
	if x.Name == "" && len(x.Names) > 0 {
		x.Name = x.Names[0]
	}
	return x
}

// stateAt returns the state of the certificate at the time now. It is expiring if less than a tenth
// of its lifetime, at most expiryNotice, is left.
func (c *Certificate) stateAt(now time.Time) CertificateState {
	switch {
	case now.After(c.NotAfter):
		return CertificateExpired
	case now.Before(c.NotBefore):
		return CertificateNotYetValid
	case c.NotAfter.Sub(now) < min(c.NotAfter.Sub(c.NotBefore)/10, expiryNotice):
		return CertificateExpiring
	default:
		return CertificateValid
	}
}

// isNamed reports whether the certificate has exactly the name, or is in the object that is named
// NAMESPACE/NAME.
func (c *Certificate) isNamed(name string) bool {
	return c.Name == name || c.Object != nil && c.Object.Namespace+"/"+c.Object.Name == name
}

// registerCertificates adds the operation that lists the certificates.
func (a *API) registerCertificates() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-certificates", Method: http.MethodGet, Path: Prefix + "/certificates",
		Summary: "Roots, the authority's and the control plane's own certificates, those in Secrets, and those issued to workloads, without keys",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.certificates)
}

// certificates serves the certificates that r selects and the caller may see, merged from the
// selected replicas. Without Options.Certificates this replica has none. Replicas that do not
// answer are in Unanswered.
func (a *API) certificates(ctx context.Context, r *CertificatesRequest) (*struct{ Body CertificateList }, error) {
	x := CertificateList{Certificates: []Certificate{}}
	if a.Certificates != nil {
		for _, c := range a.visibleCertificates(callerOf(ctx)) {
			if len(r.Name) == 0 || slices.ContainsFunc(r.Name, c.isNamed) {
				x.Certificates = append(x.Certificates, c)
			}
		}
	}
	query := url.Values{"name": r.Name}
	answers, unanswered := collectFromPeers[CertificateList](ctx, a, r.Aggregation, "/certificates", query)
	x.Merge(answers...)
	x.Unanswered = unanswered
	return &struct{ Body CertificateList }{x}, nil
}

// visibleCertificates returns the certificates of this replica that the caller may see, with their
// states. Objects of other namespaces are left out of From. Certificates without a namespace are
// for all callers. Only serving and workload certificates name the replica.
func (a *API) visibleCertificates(caller debug.Caller) []Certificate {
	now := a.Clock.Now()
	var list []Certificate
	for _, c := range a.Certificates() {
		if c.Namespace != "" && !caller.CanRead(c.Namespace) {
			continue
		}
		c.From = slices.DeleteFunc(slices.Clone(c.From), func(o Source) bool { return !caller.CanRead(o.Namespace) })
		if c.State = c.stateAt(now); c.Use == ServingCertificate || c.Use == WorkloadCertificate {
			c.Replica = a.Replica
		}
		list = append(list, c)
	}
	return list
}

// Merge adds the certificates of other replicas, and sorts all by use, expiry and name. A
// certificate that several replicas have is listed once, and of a workload's identity only the last
// to expire. At most maxCertificates are kept; Omitted counts the others.
func (x *CertificateList) Merge(others ...CertificateList) {
	type key struct {
		use    CertificateUse
		name   string
		object Source
		serial string
	}
	for _, o := range others {
		x.Certificates = append(x.Certificates, o.Certificates...)
		x.Omitted += o.Omitted
	}
	all := x.Certificates
	slices.SortStableFunc(all, func(c, d Certificate) int { return d.NotAfter.Compare(c.NotAfter) })
	seen := map[key]bool{}
	x.Certificates = make([]Certificate, 0, len(all))
	for _, c := range all {
		k := key{use: c.Use, name: c.Name, serial: c.Serial}
		if c.Object != nil {
			k.object = *c.Object
		}
		if c.Use == WorkloadCertificate {
			k.serial = ""
		}
		if !seen[k] {
			seen[k] = true
			x.Certificates = append(x.Certificates, c)
		}
	}
	order := []CertificateUse{
		RootCertificate, SigningCertificate, ServingCertificate, GatewayCertificate, TrustedCertificate,
		WorkloadCertificate,
	}
	slices.SortStableFunc(x.Certificates, func(c, d Certificate) int {
		return cmp.Or(
			slices.Index(order, c.Use)-slices.Index(order, d.Use), c.NotAfter.Compare(d.NotAfter),
			cmp.Compare(c.Name, d.Name),
		)
	})
	if n := len(x.Certificates) - maxCertificates; n > 0 {
		x.Certificates, x.Omitted = x.Certificates[:maxCertificates], x.Omitted+n
	}
}
