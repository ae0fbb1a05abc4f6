package discovery

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// clusterClient returns the client of a cluster, or nil if the cluster is unknown.
func (s *server) clusterClient(cluster string) *kube.Client {
	if s.client != nil && cluster == s.options.ClusterID {
		return s.client
	}
	if s.clusters != nil {
		return s.clusters.Client(mesh.ClusterID(cluster))
	}
	return nil
}

// clusterNamed resolves an alias of a cluster to its name. It returns any other name unchanged.
func (s *server) clusterNamed(name string) string {
	if is, ok := aliases(s.options.ClusterAliases)[mesh.ClusterID(name)]; ok {
		return string(is)
	}
	return name
}

// tokenReviews returns a function that finds the TokenReview client of a cluster by its name or an
// alias. It returns nil if the control plane has no API server.
func (s *server) tokenReviews() func(cluster string) authenticate.TokenReviews {
	if s.client == nil {
		return nil
	}
	return func(cluster string) authenticate.TokenReviews {
		if c := s.clusterClient(s.clusterNamed(cluster)); c != nil {
			return c.Reviews
		}
		return nil
	}
}

// impersonation returns the check that lets node proxies request certificates of pods on their node
// (TrustedNodes). It returns nil if none may, or if there is no API server.
func (s *server) impersonation(a *authority) ca.Impersonation {
	if len(a.o.TrustedNodes) == 0 || s.client == nil {
		return nil
	}
	return ca.NodeImpersonation{Accounts: a.o.TrustedNodes, ClusterClient: func(cluster string) kubernetes.Interface {
		if c := s.clusterClient(cluster); c != nil {
			return c.Kubernetes
		}
		return nil
	}}
}

// clusterRoots is the file where a pod finds the roots of its cluster's API server.
const clusterRoots = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// newRegistration returns the issuer that has certificates signed through Kubernetes'
// CertificateSigningRequests. It returns an error if there is no API server.
func (s *server) newRegistration(a *authority) (*ca.Registration, error) {
	if s.client == nil {
		return nil, fmt.Errorf("EXTERNAL_CA %s: there is no API server", a.o.External)
	}
	return ca.NewRegistration(ca.RegistrationOptions{
		Signing: ca.SigningRequests{Client: s.client.Kubernetes}, Signer: a.o.ExternalSigner, SignerDomain: a.o.SignerDomain,
		Lifetimes: a.o.Lifetimes, Log: a.log, SignerRoots: s.signerRoots,
	}), nil
}

// signerRoots returns the roots that meshConfig.caCertificates lists for a signer.
func (s *server) signerRoots(signer string) []*x509.Certificate {
	var list []*x509.Certificate
	for _, c := range s.current.Load().Settings.Mesh.GetCaCertificates() {
		if slices.Contains(c.GetCertSigners(), signer) {
			found, _ := ca.ParseCertificates([]byte(c.GetPem())) // Errors are reported as Problems of the settings.
			list = append(list, found...)
		}
	}
	return list
}

// followExternalRoots polls the file with the external signer's roots and applies it to r until ctx
// ends. Without an ExternalRoot file it reads the roots of the cluster. It logs each distinct error
// once.
func (a *authority) followExternalRoots(ctx context.Context, r *ca.Registration) {
	const poll = 2 * time.Second
	said := ""
	for {
		name := a.o.ExternalRoot
		if !there(name) {
			name = clusterRoots
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = r.SetRoots(text)
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			a.log.Error("the roots of the external signer cannot be used", "file", name, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(poll):
		}
	}
}

// kubernetesServing returns the source of a serving certificate that a Kubernetes signer signs. It
// returns nil unless PILOT_CERT_PROVIDER names such a signer and there is an API server.
func (s *server) kubernetesServing(a *authority) ca.CertificateSource {
	signer, ok := strings.CutPrefix(a.o.CertProvider, providerKubernetes)
	if !ok || s.client == nil {
		return nil
	}
	return kubernetesSource{s: s, a: a, signer: signer}
}

// kubernetesSource is a CertificateSource that has a Kubernetes signer sign the control plane's
// certificate.
type kubernetesSource struct {
	s      *server
	a      *authority
	signer string
}

// LoadCertificate generates a key and has a certificate signed through a CertificateSigningRequest.
// It returns an error if the signer's roots are unknown.
func (k kubernetesSource) LoadCertificate(ctx context.Context) (*tls.Certificate, []byte, error) {
	key, err := k.a.o.KeyType.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	request, err := ca.NewServerRequest(rand.Reader, key, k.a.o.hosts(k.s.options.Namespace, k.s.options.Revision))
	if err != nil {
		return nil, nil, err
	}
	text, err := ca.SigningRequests{Client: k.s.client.Kubernetes}.Sign(ctx, ca.SigningRequest{
		CSR: request, Signer: k.signer, Lifetime: 24 * time.Hour,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth},
	})
	if err != nil {
		return nil, nil, err
	}
	private, err := ca.EncodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	c, err := tls.X509KeyPair(text, private)
	if err != nil {
		return nil, nil, fmt.Errorf("what %s has signed: %w", k.signer, err)
	}
	roots := k.s.signerRoots(k.signer)
	if len(roots) == 0 && k.a.issuer != nil {
		roots, _ = k.a.issuer.Roots()
	}
	if len(roots) == 0 {
		return nil, nil, errors.New("there are no roots of " + k.signer + ": meshConfig.caCertificates or an external root must name them")
	}
	return &c, ca.EncodeCertificates(roots...), nil
}

// SourceChanged returns the channel that is closed when the authority's roots change.
func (k kubernetesSource) SourceChanged() <-chan struct{} {
	if k.a.issuer == nil {
		return nil
	}
	_, changed := k.a.issuer.Roots()
	return changed
}

// leadRoots publishes the roots in the namespaces of the own cluster while this replica is the
// leader.
func (s *server) leadRoots(ctx context.Context) {
	err := s.lead(ctx, leader.RootCertificates, func(ctx context.Context) {
		if err := s.publishRoots(ctx, s.client.Kubernetes); err != nil {
			s.authority.log.Error("the roots are not published", "err", err)
		}
	})
	if err != nil {
		s.authority.log.Error("the roots are not published", "err", err)
	}
}

// publishRoots keeps the ConfigMap with the roots up to date in all selected namespaces of a
// cluster, until ctx ends. The elected leader runs it for its own cluster and for remote clusters.
func (s *server) publishRoots(ctx context.Context, client kubernetes.Interface) error {
	a := s.authority
	return ca.RootPublisher{
		Client: client, Log: a.log, NamespaceSelected: s.selects,
		Roots: func() ([]byte, <-chan struct{}) {
			list, changed := a.issuer.Roots()
			return ca.EncodeCertificates(list...), changed
		},
		RevocationLists: a.revoked, SelectionChanged: s.settingsNews.changed,
	}.Run(ctx)
}

// selects reports whether a namespace with these labels belongs to the mesh
// (meshConfig.discoverySelectors). It returns true if there are no selectors.
func (s *server) selects(of map[string]string) bool {
	selectors := s.current.Load().Settings.Mesh.GetDiscoverySelectors()
	for _, x := range selectors {
		l := &metav1.LabelSelector{MatchLabels: x.GetMatchLabels()}
		for _, e := range x.GetMatchExpressions() {
			l.MatchExpressions = append(l.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.GetKey(), Operator: metav1.LabelSelectorOperator(e.GetOperator()), Values: e.GetValues(),
			})
		}
		if selector, err := metav1.LabelSelectorAsSelector(l); err == nil && selector.Matches(labels.Set(of)) {
			return true
		}
	}
	return len(selectors) == 0
}
