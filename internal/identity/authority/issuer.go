package authority

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// newIssuer sets s.issuer, and for an own authority its stores and reloader. It returns the control
// plane's own Authority if that signs, and nil if an external signer does. If the CA is disabled or
// has no store for its key, s.issuer and the result are nil. It returns an error if newRegistration
// or newStores fails.
func (s *Server) newIssuer() (*ca.Authority, error) {
	settings := s.o.Settings
	if !settings.Enabled {
		return nil, nil
	}
	if settings.External != "" {
		external, err := s.newRegistration()
		if err == nil {
			s.issuer = external
		}
		return nil, err
	}
	stores, err := s.newStores()
	if err != nil || len(stores) == 0 {
		return nil, err
	}
	local := ca.NewAuthority(ca.AuthorityOptions{Lifetimes: settings.Lifetimes, Log: s.log})
	s.issuer, s.stores = local, stores
	s.reloader = &ca.Reloader{Authority: local, Rotation: settings.Rotation, Log: s.log, OnLoadError: func(err error) {
		if err != nil {
			s.o.Metrics.BadMaterial.Inc()
		}
	}}
	return local, nil
}

// newRegistration returns the issuer that has certificates signed through Kubernetes'
// CertificateSigningRequests. It returns an error if there is no API server.
func (s *Server) newRegistration() (*ca.Registration, error) {
	settings := s.o.Settings
	if s.o.Client == nil {
		return nil, fmt.Errorf("EXTERNAL_CA %s: there is no API server", settings.External)
	}
	return ca.NewRegistration(ca.RegistrationOptions{
		Signing: ca.SigningRequests{Client: s.o.Client.Kubernetes}, Signer: settings.ExternalSigner,
		SignerDomain: settings.SignerDomain,
		Lifetimes:    settings.Lifetimes, Log: s.log, SignerRoots: s.signerRoots,
	}), nil
}

// signerRoots returns the roots that meshConfig.caCertificates lists for a signer, nil if it lists
// none. An entry whose PEM is invalid is left out as a whole.
func (s *Server) signerRoots(signer string) []*x509.Certificate {
	var list []*x509.Certificate
	for _, c := range s.o.Snapshot().Settings.Mesh.GetCaCertificates() {
		if slices.Contains(c.GetCertSigners(), signer) {
			found, _ := ca.ParseCertificates([]byte(c.GetPem())) // Errors are reported as Problems of the settings.
			list = append(list, found...)
		}
	}
	return list
}

// clusterRoots is the file where a pod finds the roots of its cluster's API server.
const clusterRoots = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// pollExternalRoots reads the file with the external signer's roots every two seconds and applies
// it to r (SetRoots), until ctx ends. If the file ExternalRoot does not exist, it reads the roots
// of the cluster. It logs an error that differs from the last logged one, and r keeps its roots.
func (s *Server) pollExternalRoots(ctx context.Context, r *ca.Registration) {
	const interval = 2 * time.Second
	logged := ""
	for {
		name := s.o.Settings.ExternalRoot
		if _, err := os.Stat(name); err != nil {
			name = clusterRoots
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = r.SetRoots(text)
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			s.log.Error("the roots of the external signer cannot be used", "file", name, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// newImpersonation returns the check that lets node proxies request certificates of pods on their
// node. It returns nil if TrustedNodes is empty or there is no API server.
func (s *Server) newImpersonation() ca.Impersonation {
	if len(s.o.Settings.TrustedNodes) == 0 || s.o.Client == nil {
		return nil
	}
	return ca.NodeImpersonation{
		Accounts: s.o.Settings.TrustedNodes,
		ClusterClient: func(cluster string) kubernetes.Interface {
			if c := s.o.ClusterClient(cluster); c != nil {
				return c.Kubernetes
			}
			return nil
		},
	}
}
