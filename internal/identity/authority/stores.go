package authority

import (
	"context"
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// store is a place that may contain the authority's certificate and key.
type store struct {
	ca.KeyStore
	// plugged reports whether operators provide the content. In that case nothing is created or
	// renewed.
	plugged bool
}

// newStores returns the candidate stores in the order in which Istio searches them. First is the
// mounted directory PluggedDir if it has a key. With an API server, the Secret of the operators and
// the one where the control plane creates a root follow; with SelfSignedInCacerts they are one.
// Without, it is Dir if set. An error is returned if PluggedDir cannot be read.
func (s *Server) newStores() ([]store, error) {
	var stores []store
	settings := s.o.Settings
	if settings.PluggedDir != "" {
		mounted := ca.FileStore{Path: settings.PluggedDir, ReadOnly: true, PollInterval: settings.Poll}
		switch exists, err := ca.Exists(context.Background(), mounted); {
		case err != nil:
			return nil, fmt.Errorf("ROOT_CA_DIR: %w", err)
		case exists:
			stores = append(stores, store{mounted, true})
		}
	}
	if s.o.Client != nil {
		secret := func(name string, readOnly bool) store {
			return store{ca.SecretStore{Client: s.o.Client.Kubernetes, Namespace: s.o.Namespace, Name: name,
				ReadOnly: readOnly}, readOnly}
		}
		stores = append(stores, secret(ca.PluggedSecret, !settings.SelfSignedInCacerts))
		if !settings.SelfSignedInCacerts {
			stores = append(stores, secret(ca.SelfSignedSecret, false))
		}
		return stores, nil
	}
	if settings.Dir != "" {
		stores = append(stores, store{ca.FileStore{Path: settings.Dir, PollInterval: settings.Poll}, false})
	}
	return stores, nil
}

// storeRetry is the delay between attempts to load the authority from an API server that does not
// respond.
const storeRetry = 2 * time.Second

// openReloader loads the authority from the first store that has it. If the last store is a file
// store, an error of any store is returned at once. If it is a Secret, errors are logged and
// retried until ctx ends, which returns nil: certificates can wait, whereas a control plane that
// exits would stop configuring its proxies.
func (s *Server) openReloader(ctx context.Context) error {
	for {
		err := s.loadFirstStore(ctx)
		if err == nil {
			return nil
		}
		if _, local := s.stores[len(s.stores)-1].KeyStore.(ca.FileStore); local {
			return err
		}
		s.log.Error("there is no certificate authority yet", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(storeRetry):
		}
	}
}

// loadFirstStore makes the first store with content the reloader's, or the last store if none has
// any, and loads the authority from it. If that store is empty and not of operators (plugged), it
// creates a self-signed root there.
func (s *Server) loadFirstStore(ctx context.Context) error {
	settings := s.o.Settings
	for i, candidate := range s.stores {
		if i < len(s.stores)-1 {
			if exists, err := ca.Exists(ctx, candidate.KeyStore); err != nil {
				return err
			} else if !exists {
				continue
			}
		}
		s.reloader.Store, s.reloader.SelfSigned = candidate.KeyStore, nil
		if !candidate.plugged {
			s.reloader.SelfSigned = &ca.SelfSigned{TrustDomain: s.TrustDomains()[0], Lifetime: settings.RootLifetime,
				KeyType: settings.KeyType}
		}
		break
	}
	return s.reloader.LoadOrCreate(ctx)
}
