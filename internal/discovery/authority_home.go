package discovery

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// authorityHome is a store that may contain the authority's certificate and key.
type authorityHome struct {
	ca.KeyStore
	// plugged reports whether operators provide the content. In that case nothing is created or
	// renewed.
	plugged bool
}

// authorityHomes returns the candidate stores in the order in which they are searched, which is
// Istio's: the mounted directory, the Secret of the operators, and the store where the control
// plane creates a root if no other has one. It returns an error if the mounted directory cannot be
// read.
func (s *server) authorityHomes(o AuthorityOptions) ([]authorityHome, error) {
	var homes []authorityHome
	if o.PluggedDir != "" {
		mounted := ca.FileStore{Path: o.PluggedDir, ReadOnly: true, PollInterval: o.Poll}
		switch holds, err := ca.Exists(context.Background(), mounted); {
		case err != nil:
			return nil, fmt.Errorf("ROOT_CA_DIR: %w", err)
		case holds:
			homes = append(homes, authorityHome{mounted, true})
		}
	}
	if client := s.client; client != nil {
		cacerts := ca.SecretStore{Client: client.Kubernetes, Namespace: s.options.Namespace, Name: ca.PluggedSecret, ReadOnly: !o.SelfSignedInCacerts}
		homes = append(homes, authorityHome{cacerts, !o.SelfSignedInCacerts})
		if !o.SelfSignedInCacerts {
			homes = append(homes, authorityHome{ca.SecretStore{Client: client.Kubernetes, Namespace: s.options.Namespace, Name: ca.SelfSignedSecret}, false})
		}
		return homes, nil
	}
	if o.Dir != "" {
		homes = append(homes, authorityHome{ca.FileStore{Path: o.Dir, PollInterval: o.Poll}, false})
	}
	return homes, nil
}

// homeRetry is the delay between attempts to load the authority from an API server that does not
// respond.
const homeRetry = 2 * time.Second

// openKeeper loads the authority from the first store that has it. If the last store is a Secret,
// it logs errors and retries; it returns nil if ctx ends. Certificates can wait, whereas a control
// plane that exits would stop configuring its proxies. An error of a file store is returned at
// once.
func (a *authority) openKeeper(ctx context.Context) error {
	for {
		err := a.tryKeeper(ctx)
		if err == nil {
			return nil
		}
		if _, local := a.homes[len(a.homes)-1].KeyStore.(ca.FileStore); local {
			return err
		}
		a.log.Error("there is no certificate authority yet", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(homeRetry):
		}
	}
}

func (a *authority) tryKeeper(ctx context.Context) error {
	for i, h := range a.homes {
		if i < len(a.homes)-1 {
			if holds, err := ca.Exists(ctx, h.KeyStore); err != nil {
				return err
			} else if !holds {
				continue
			}
		}
		a.keeper.Store, a.keeper.SelfSigned = h.KeyStore, nil
		if !h.plugged {
			a.keeper.SelfSigned = &ca.SelfSigned{TrustDomain: a.trustDomains()[0], Lifetime: a.o.RootLifetime, KeyType: a.o.KeyType}
		}
		break
	}
	return a.keeper.LoadOrCreate(ctx)
}

// authenticators returns the authentication methods in order. Methods that verify locally precede
// methods that call another server. It returns an error if the key of workload tokens cannot be
// loaded or created.
func (s *server) authenticators(a *authority) (authenticate.Chain, error) {
	chain := authenticate.Chain{authenticate.ClientCertificate{TrustDomains: a.trustDomains}}
	if a.o.Dir != "" {
		key, err := ca.LoadOrCreateTokenKey(a.o.Dir, rand.Reader)
		if err != nil {
			return nil, err
		}
		tokens, err := authenticate.NewWorkloadToken(&key.PublicKey, a.o.Audiences, a.trustDomains, nil)
		if err != nil {
			return nil, err
		}
		tokens.HasWorkload = a.membership.HasWorkload
		chain = append(chain, tokens)
	}
	if a.o.OIDC != nil {
		// The operator has configured the address, so it may be on this machine.
		client := fetch.NewClient(fetch.Options{Loopback: true})
		chain = append(chain, authenticate.NewOIDC(*a.o.OIDC, a.trustDomains, client, a.log, nil))
	}
	if reviews := s.tokenReviews(); reviews != nil {
		chain = append(chain, authenticate.NewKubernetes(authenticate.KubernetesOptions{
			TrustDomains: a.trustDomains, Audiences: a.o.Audiences, Cluster: s.options.ClusterID, Reviews: reviews,
		}))
	}
	if len(a.o.TrustedGateways) > 0 {
		chain = append(chain, authenticate.ForwardedCertificate{TrustDomains: a.trustDomains, TrustedNetworks: a.o.TrustedGateways})
	}
	return chain, nil
}

// there reports whether the file exists.
func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
