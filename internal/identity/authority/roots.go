package authority

import (
	"context"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// PublishesRoots reports whether the roots are published as ConfigMaps: if there is an authority
// and an API server, and Settings.PublishRoots is set. An API server is known by Options.Elections.
func (s *Server) PublishesRoots() bool {
	return s.issuer != nil && s.o.Elections != nil && s.o.Settings.PublishRoots
}

// PublishRemoteRoots publishes the roots in a remote cluster while this replica is the leader of
// the task of that cluster, until ctx ends. Failures are logged; it returns nil. PublishesRoots
// must return true.
func (s *Server) PublishRemoteRoots(ctx context.Context, id mesh.ClusterID, client *kube.Client) error {
	s.publishAsLeader(ctx, leader.RootCertificates+"-"+strings.ToLower(string(id)), client.Kubernetes)
	return nil
}

// publishAsLeader publishes the roots in the client's cluster while this replica is the leader of
// task, until ctx ends. The Lease is in the own cluster. A replica of another control plane that
// publishes in the same cluster writes the same content. Failures are logged.
func (s *Server) publishAsLeader(ctx context.Context, task string, client kubernetes.Interface) {
	log := s.log.With("task", task)
	err := s.o.Elections.Run(ctx, task, func(ctx context.Context) {
		if err := s.publishRoots(ctx, client); err != nil {
			log.Error("the roots are not published", "err", err)
		}
	})
	if err != nil {
		log.Error("the roots are not published", "err", err)
	}
}

// publishRoots keeps the ConfigMap with the roots up to date in all selected namespaces of a
// cluster, until ctx ends. It returns an error if it cannot start.
func (s *Server) publishRoots(ctx context.Context, client kubernetes.Interface) error {
	return s.rootPublisher(client).Run(ctx)
}

// rootPublisher returns the publisher of the issuer's roots in the client's cluster, in the
// namespaces that the discovery selectors select. With PublishRevocationLists it publishes the
// revocation lists too.
func (s *Server) rootPublisher(client kubernetes.Interface) ca.RootPublisher {
	p := ca.RootPublisher{
		Client: client, Name: s.o.Settings.RootConfigMap, Log: s.log,
		NamespaceSelected: func(of map[string]string) bool {
			return isSelected(s.o.Snapshot().Settings.Mesh.GetDiscoverySelectors(), of)
		},
		Roots: func() ([]byte, <-chan struct{}) {
			list, changed := s.issuer.Roots()
			return ca.EncodeCertificates(list...), changed
		},
		SelectionChanged: s.o.SettingsChanged,
	}
	if s.o.Settings.PublishRevocationLists {
		p.RevocationLists = s.revocationLists
	}
	return p
}

// revocationLists returns the certificate revocation lists that operators supplied with the
// authority, in PEM. It returns nil if there are none or if an external signer is used.
func (s *Server) revocationLists() []byte {
	if local, ok := s.issuer.(*ca.Authority); ok {
		return local.RevocationLists()
	}
	return nil
}

// isSelected reports whether a namespace with these labels matches any selector
// (meshConfig.discoverySelectors). It returns true if there are none. Invalid selectors match
// nothing.
func isSelected(selectors []*meshconfig.LabelSelector, of map[string]string) bool {
	for _, x := range selectors {
		if selector, err := mesh.LabelSelector(x); err == nil && selector.Matches(labels.Set(of)) {
			return true
		}
	}
	return len(selectors) == 0
}
