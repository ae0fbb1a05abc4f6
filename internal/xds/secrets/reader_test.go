package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// gatewayObjects contains a Gateway whose certificate its proxies will request.
const gatewayObjects = `
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: cert}}
`

// newReader returns a Reader of an API server that never answers.
func newReader(t *testing.T, s *snapshot.Snapshot) *Reader {
	t.Helper()
	return New(Options{
		Cluster: "Kubernetes", PlainText: feed.PlainTextLoopback,
		Config: credential.New(credential.Options{}), Remote: credential.NewClusters(credential.Options{}),
		Snapshot: func() *snapshot.Snapshot { return s }, Log: slog.New(slog.DiscardHandler),
	})
}

// TestWants: private keys are read in the cluster of the proxy with its account, and in the config
// cluster only as a fallback.
func TestWants(t *testing.T) {
	s := fixture.New(t, []byte(gatewayObjects), nil).Snapshot()
	r := newReader(t, s)
	ours := config.Key{Kind: api.Secret, Namespace: "shop", Name: "cert"}
	theirs := mesh.RemoteSecretKey("east", "shop", "cert")
	const named, configured = "kubernetes://cert", "kubernetes-gateway://shop/cert"
	for _, test := range []struct {
		about, proxy  string
		names         []string
		config, other credential.Want
	}{
		{"a sidecar that requests nothing", "{namespace: shop, account: web}", nil, credential.Want{}, credential.Want{}},
		{
			"a sidecar that requests a key", "{namespace: shop, account: web}", []string{named},
			credential.Want{Private: []config.Key{ours}, Account: mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: "web"}},
			credential.Want{},
		},
		{
			"a gateway that requests nothing: its account is reviewed all the same", "{type: router, namespace: shop, account: web}", nil,
			credential.Want{Account: mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: "web"}}, credential.Want{},
		},
		{
			"a gateway of another cluster", "{type: router, namespace: shop, account: web, cluster: east}", []string{named},
			credential.Want{Fallback: []config.Key{ours}},
			credential.Want{Private: []config.Key{theirs}, Account: mesh.Account{Cluster: "east", Namespace: "shop", Name: "web"}},
		},
		{
			"what a Gateway names is of the config cluster",
			"{type: router, namespace: shop, account: web, cluster: east}", []string{configured},
			credential.Want{Objects: []config.Key{ours}},
			credential.Want{Account: mesh.Account{Cluster: "east", Namespace: "shop", Name: "web"}},
		},
		{"a proxy without keys", "{namespace: shop}", []string{named}, credential.Want{}, credential.Want{}},
	} {
		inConfig, inOther := r.wants(s, fixture.Proxy(t, []byte(test.proxy)), test.names)
		if got, want := spellWant(inConfig), spellWant(test.config); got != want {
			t.Errorf("%s: requested from the config cluster: %s, want %s", test.about, got, want)
		}
		if got, want := spellWant(inOther), spellWant(test.other); got != want {
			t.Errorf("%s: requested from the proxy's cluster: %s, want %s", test.about, got, want)
		}
	}
}

func spellWant(w credential.Want) string {
	return fmt.Sprintf("objects %v, private %v, fallback %v for %+v", w.Objects, w.Private, w.Fallback, w.Account)
}

func TestAuthorizeKeysWithoutAnAPIServer(t *testing.T) {
	r := New(Options{Cluster: "Kubernetes", Log: slog.New(slog.DiscardHandler)})
	for identity, want := range map[string]bool{
		"spiffe://cluster.local/ns/shop/sa/web": true, "spiffe://cluster.local/ns/other/sa/web": false,
	} {
		p := &mesh.Proxy{Namespace: "shop", Account: mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: "claimed"}}
		got := r.AuthorizeKeys(p, server.Hello{Secure: true, Identities: []string{identity}})
		if got != want || p.Account.Cluster != "" || p.Account.Name == "claimed" {
			t.Errorf("%s: %v, the account is %+v", identity, got, p.Account)
		}
	}
}

// TestAuthorizeKeysWaits checks that only a gateway waits for its certificates, for a limited time.
func TestAuthorizeKeysWaits(t *testing.T) {
	s := fixture.New(t, []byte(gatewayObjects), nil).Snapshot()
	for _, test := range []struct {
		about, proxy, identity string
		keys, waits            bool
	}{
		{"a gateway", "{type: router, namespace: shop, labels: {app: gateway}}", "spiffe://cluster.local/ns/shop/sa/web", true, true},
		{"a sidecar", "{namespace: shop}", "spiffe://cluster.local/ns/shop/sa/web", true, false},
		{"another namespace", "{type: router, namespace: shop, labels: {app: gateway}}", "spiffe://cluster.local/ns/other/sa/web", false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := fixture.Proxy(t, []byte(test.proxy))
			hello := server.Hello{Secure: true, Identities: []string{test.identity}, Cluster: "Kubernetes"}
			began := time.Now()
			if got := newReader(t, s).AuthorizeKeys(p, hello); got != test.keys || p.Keys != test.keys {
				t.Errorf("%s: private keys are sent: %v, %v", test.about, got, p.Keys)
			}
			if waited := time.Since(began) > 0; waited != test.waits {
				t.Errorf("%s waits for %v", test.about, time.Since(began))
			}
			if want := (mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: "web"}); test.keys && p.Account != want {
				t.Errorf("%s: the account is %+v", test.about, p.Account)
			}
		})
	}
}

func TestAwaitSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fixture.New(t, nil, nil)
		current := m.Snapshot()
		r := New(Options{Snapshot: func() *snapshot.Snapshot { return current }})
		keys := []config.Key{{Kind: api.Gateway, Namespace: "shop", Name: "edge"}}
		ended := make(chan struct{})
		go func() { defer close(ended); r.AwaitSnapshot(t.Context(), keys) }()
		isEnded := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		r.NotifyPublished()
		if isEnded() {
			t.Error("the wait ends without the object")
		}
		current, _ = m.Apply(t, gatewayObjects)
		r.NotifyPublished()
		if !isEnded() {
			t.Error("the wait does not end with the object")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.AwaitSnapshot(ctx, slices.Concat(keys, []config.Key{{Kind: api.Secret, Namespace: "shop", Name: "none"}}))
		if ctx.Err() == nil {
			t.Error("a wait for several objects ends with the first")
		}
	})
}
