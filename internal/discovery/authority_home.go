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

// authorityHome is a place where the authority's certificate and key may be.
type authorityHome struct {
	ca.KeyStore
	// plugged says that operators have put it there: nothing is made or renewed.
	plugged bool
}

// authorityHomes gives the places in the order in which they are looked at, as Istio's: what is mounted, the Secret of
// operators, and where the control plane makes a root if there is none anywhere.
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

// homeRetry is how long an API server that does not answer is left alone.
const homeRetry = 2 * time.Second

// openKeeper finds the authority and has it signed with. While an API server does not answer, that is tried again: certificates
// can wait, and a control plane that ends would take its proxies' configuration along.
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

// authenticators are the ways to prove who one is, in their order: what can be judged here goes before what others are asked about.
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
		// The operator has written the address, so this machine may be meant.
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

// there says whether there is a file.
func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
