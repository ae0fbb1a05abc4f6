package sds

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/internal/agent/socket"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// waitTimeout bounds every wait.
const waitTimeout = 20 * time.Second

// startServer serves a new store and returns it with a client. The names of rejected secrets are
// sent to refused.
func startServer(t *testing.T) (store *secret.Store, client secretv3.SecretDiscoveryServiceClient, refused chan string) {
	t.Helper()
	store, refused = secret.NewStore(), make(chan string, 16)
	s := New(Options{
		Store: store, WatchIfFile: func(context.Context, string) bool { return false }, OnNACK: func(name string) { refused <- name }, Log: slog.New(slog.DiscardHandler),
	})
	path := filepath.Join(t.TempDir(), "socket")
	l, err := socket.Listen(path, socket.OwnerAndGroup)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return store, secretv3.NewSecretDiscoveryServiceClient(connection), refused
}

// pair and trust return secrets with recognizable content.
func pair(text string) secret.Secret {
	return secret.Secret{Chain: []byte("chain " + text), Key: []byte("key " + text)}
}
func trust(text string) secret.Secret { return secret.Secret{Roots: []byte("roots " + text)} }

// describeSecret returns the name and content of a secret.
func describeSecret(t *testing.T, packed *anypb.Any) string {
	t.Helper()
	var s tlsv3.Secret
	if err := packed.UnmarshalTo(&s); err != nil {
		t.Error(err)
		return ""
	}
	if c := s.GetTlsCertificate(); c != nil {
		return fmt.Sprintf("%s: %s, %s", s.GetName(), c.GetCertificateChain().GetInlineBytes(), c.GetPrivateKey().GetInlineBytes())
	}
	return fmt.Sprintf("%s: %s", s.GetName(), s.GetValidationContext().GetTrustedCa().GetInlineBytes())
}

// responseReader returns a function that returns the next response of a stream as a string.
func responseReader[R any](t *testing.T, recv func() (R, error), say func(R) string) func() string {
	t.Helper()
	got := make(chan string, 64)
	go func() {
		for {
			r, err := recv()
			if err != nil {
				close(got)
				return
			}
			got <- say(r)
		}
	}()
	return func() string {
		select {
		case s := <-got:
			return s
		case <-time.After(waitTimeout):
			t.Fatal("no answer")
			return ""
		}
	}
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestStateOfTheWorld(t *testing.T) {
	store, client, refused := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make(chan string, 64)
	next := responseReader(t, stream.Recv, func(r *discoveryv3.DiscoveryResponse) string {
		nonce <- r.GetNonce()
		var all []string
		for _, packed := range r.GetResources() {
			all = append(all, describeSecret(t, packed))
		}
		return strings.Join(all, "; ")
	})
	ask := func(nonce, problem string, names ...string) {
		r := &discoveryv3.DiscoveryRequest{TypeUrl: api.SecretType, ResourceNames: names, ResponseNonce: nonce}
		if problem != "" {
			r.ErrorDetail = &rpcstatus.Status{Message: problem}
		}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	ask("", "", "default")
	store.Set("ROOTCA", trust("1")) // not subscribed
	store.Set("default", pair("1"))
	check(t, "once there is one", next(), "default: chain 1, key 1")
	ask(<-nonce, "", "default")
	store.Set("default", pair("1"))
	store.Set("default", pair("2"))
	check(t, "a change", next(), "default: chain 2, key 2")
	ask(<-nonce, "is bad", "default")
	if got := <-refused; got != "default" {
		t.Errorf("refused %s", got)
	}
	store.Set("default", pair("3"))
	check(t, "after a refusal", next(), "default: chain 3, key 3")
	last := <-nonce
	ask("of old", "", "ROOTCA") // a stale nonce
	ask(last, "", "default", "ROOTCA")
	check(t, "one more name", next(), "ROOTCA: roots 1")
}

func TestDelta(t *testing.T) {
	store, client, _ := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.DeltaSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	version := ""
	next := responseReader(t, stream.Recv, func(r *discoveryv3.DeltaDiscoveryResponse) string {
		var all []string
		for _, one := range r.GetResources() {
			version = one.GetVersion()
			all = append(all, describeSecret(t, one.GetResource()))
		}
		return strings.Join(all, "; ")
	})
	send := func(r *discoveryv3.DeltaDiscoveryRequest) {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	store.Set("default", pair("1"))
	store.Set("ROOTCA", trust("1"))
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"default", "nobody's", "ROOTCA"}})
	check(t, "at first", next(), "ROOTCA: roots 1; default: chain 1, key 1")
	store.Set("nobody's", trust("2"))
	check(t, "a late one", next(), "nobody's: roots 2")
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: []string{"default"}, ResourceNamesSubscribe: []string{"ROOTCA"}})
	check(t, "asked for again", next(), "ROOTCA: roots 1")
	send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"ROOTCA"}, InitialResourceVersions: map[string]string{"ROOTCA": version}})
	store.Set("default", pair("2"))
	store.Set("ROOTCA", trust("3"))
	check(t, "what it does not have", next(), "ROOTCA: roots 3")
}

func TestTooManyNames(t *testing.T) {
	_, client, _ := startServer(t)
	stream, err := client.StreamSecrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, maxNames+1)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: names}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
}
