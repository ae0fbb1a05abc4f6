package authority

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// newServer returns an authority in a directory, whose mesh settings are known.
func newServer(t *testing.T, serving ca.FileSource) *Server {
	t.Helper()
	settings := DefaultSettings()
	settings.Dir, settings.PluggedDir = filepath.Join(t.TempDir(), "ca"), ""
	synced := make(chan struct{})
	close(synced)
	s, err := New(Options{
		Settings: settings, Namespace: "istio-system", ServingFiles: serving, Synced: synced,
		Snapshot: fixture.New(t, nil, nil).Snapshot, UnsyncedClusters: func() []string { return nil },
		Metrics: &obs.NewMetrics().Authority, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitRun returns the result of Run, which must return within ten seconds.
func awaitRun(ctx context.Context, t *testing.T, s *Server) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not return")
		return nil
	}
}

// unwatchedStore is a directory whose watch fails.
type unwatchedStore struct{ ca.FileStore }

func (unwatchedStore) Watch(context.Context, func()) error { return errors.New("too many watches") }

// TestRunReturnsErrors: Run does not wait for the end of the context if the serving certificate or
// the watch of the authority's files fails.
func TestRunReturnsErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	s := newServer(t, ca.FileSource{Certificate: missing, Key: missing})
	if err := awaitRun(t.Context(), t, s); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing serving certificate: %v", err)
	}
	s = newServer(t, ca.FileSource{})
	s.stores = []store{{unwatchedStore{ca.FileStore{Path: s.o.Settings.Dir}}, false}}
	if err := awaitRun(t.Context(), t, s); err == nil || !strings.Contains(err.Error(), "too many watches") {
		t.Errorf("a failed watch: %v", err)
	}
}

// unreachableStore is a store of an API server that does not respond. It calls onLoad at each
// attempt.
type unreachableStore struct {
	ca.KeyStore
	onLoad func()
}

func (s unreachableStore) Load(context.Context) (ca.Files, string, error) {
	s.onLoad()
	return ca.Files{}, "", errors.New("connection refused")
}

// TestStopBeforeAuthority: if the context ends before a store could be read, Run returns nil.
func TestStopBeforeAuthority(t *testing.T) {
	files := pki.NewFiles(t, "localhost")
	for name, serving := range map[string]ca.FileSource{
		"own serving certificate":        {},
		"serving certificate from files": {Certificate: files.ServerCertFile, Key: files.ServerKeyFile},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := newServer(t, serving)
			unreachable := store{unreachableStore{onLoad: cancel}, false}
			s.stores = []store{unreachable, unreachable}
			if err := awaitRun(ctx, t, s); err != nil {
				t.Error(err)
			}
			select {
			case <-s.Opened():
				t.Error("the authority is opened")
			default:
			}
		})
	}
}

// TestIdentityOfProxy: of several identities in one certificate, the proxy has the one that matches
// its namespace and service account.
func TestIdentityOfProxy(t *testing.T) {
	const web, shop = "spiffe://cluster.local/ns/shop/sa/web", "spiffe://cluster.local/ns/shop/sa/cart"
	s := &Server{o: Options{Settings: Settings{CheckXDSIdentity: true}}, log: slog.New(slog.DiscardHandler)}
	peer := Peer{Secure: true, Identities: []string{"spiffe://cluster.local/ns/bank/sa/web", web, shop}}
	for account, want := range map[string]string{"": web, "web": web, "cart": shop} {
		p := &mesh.Proxy{Namespace: "shop", Metadata: mesh.NodeMetadata{ServiceAccount: account}}
		if err := s.AdmitProxy(p, peer); err != nil || p.Identity != want {
			t.Errorf("account %q: identity %q, error %v; want %q", account, p.Identity, err, want)
		}
	}
	if p := (&mesh.Proxy{Namespace: "other"}); s.AdmitProxy(p, peer) == nil || p.Identity != "" {
		t.Errorf("another namespace: identity %q", p.Identity)
	}
}
