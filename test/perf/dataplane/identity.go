package dataplane

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/url"

	"github.com/meshpilot/meshpilot/internal/agent/sds"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// identity serves a sidecar its certificate and the mesh's root, as pilot-agent does.
type identity struct {
	cancel context.CancelFunc
	done   chan error
}

// serveIdentity serves the identity of a service account on a Unix socket.
func serveIdentity(path, account string, root *pki.Pair) (*identity, error) {
	own := root.Issue(&x509.Certificate{URIs: []*url.URL{{
		Scheme: "spiffe", Host: "cluster.local", Path: "/ns/" + workload.SharedNamespace + "/sa/" + account,
	}}})
	pair, err := secret.ParseKeyPair(own.CertificatePEM(), own.KeyPEM())
	if err != nil {
		return nil, err
	}
	roots, err := secret.ParseRoots(root.CertificatePEM())
	if err != nil {
		return nil, err
	}
	store := secret.NewStore()
	store.Set(secret.WorkloadName, pair)
	store.Set(secret.RootsName, roots)
	l, err := socket.Listen(path, socket.OwnerAndGroup)
	if err != nil {
		return nil, err
	}
	return startIdentity(l, store), nil
}

func startIdentity(l net.Listener, store *secret.Store) *identity {
	ctx, cancel := context.WithCancel(context.Background())
	i := &identity{cancel: cancel, done: make(chan error, 1)}
	server := sds.New(sds.Options{
		Store: store, WatchIfFile: func(context.Context, string) bool { return false }, Log: slog.New(slog.DiscardHandler),
	})
	go func() { i.done <- server.Serve(ctx, l) }()
	return i
}

// close ends the server and waits for it.
func (i *identity) close() error {
	i.cancel()
	return <-i.done
}
