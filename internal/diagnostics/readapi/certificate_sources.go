package readapi

import (
	"crypto/x509"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/authority"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// maxCredentials limits the Secrets and ConfigMaps whose certificates are listed.
const maxCredentials = 2_000

// CertificatesOf returns the certificates of an authority and of the TLS ports, those issued to
// workloads, and certificates in a snapshot that proxies may request. The latter are in at most
// maxCredentials Secrets and ConfigMaps. An expired certificate of a workload is left out if no
// workload has its identity now.
func CertificatesOf(s *snapshot.Snapshot, inventory authority.Inventory) []Certificate {
	var list []Certificate
	for _, c := range inventory.Roots {
		list = append(list, NewCertificate(RootCertificate, c))
	}
	for _, c := range inventory.Signing {
		list = append(list, NewCertificate(SigningCertificate, c))
	}
	if c := inventory.Serving; c != nil {
		list = append(list, NewCertificate(ServingCertificate, c))
	}
	for _, c := range secret.Credentials(s, maxCredentials) {
		list = append(list, newCredentialCertificates(c)...)
	}
	accounts := map[string]bool{}
	for id := range s.WorkloadAccounts() {
		accounts[id] = true
	}
	for id, c := range inventory.Issued {
		if time.Now().After(c.NotAfter) && !accounts[id.String()] {
			continue // its workloads have gone
		}
		list = append(list, newWorkloadCertificate(id, c))
	}
	return list
}

// newWorkloadCertificate returns the entry of the newest certificate of an identity. The namespace
// is that of a service account, else "".
func newWorkloadCertificate(id spiffe.ID, c authority.IssuedCertificate) Certificate {
	x := Certificate{
		Use: WorkloadCertificate, Name: id.String(), Serial: c.Serial, NotBefore: c.NotBefore.UTC(),
		NotAfter: c.NotAfter.UTC(),
	}
	if a, ok := id.Account(); ok {
		x.Namespace = a.Namespace
	}
	return x
}

// newCredentialCertificates returns an entry for the first certificate of the chain of a Secret or
// ConfigMap, and for each trusted certificate. Intermediates are left out. Each entry has the
// object, its namespace and the objects that name it.
func newCredentialCertificates(c secret.Credential) []Certificate {
	var from []Source
	for _, k := range c.From {
		from = append(from, SourceOf(k))
	}
	var list []Certificate
	add := func(use CertificateUse, certificate *x509.Certificate) {
		x := NewCertificate(use, certificate)
		object := SourceOf(c.Object)
		x.Object, x.Namespace, x.From = &object, c.Object.Namespace, from
		list = append(list, x)
	}
	if len(c.Chain) > 0 {
		add(GatewayCertificate, c.Chain[0])
	}
	for _, one := range c.Trusted {
		add(TrustedCertificate, one)
	}
	return list
}
