package secrets

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

func TestVerifiedAccount(t *testing.T) {
	loopback, elsewhere := server.Hello{Peer: "127.0.0.1:40000"}, server.Hello{Peer: "10.0.0.7:40000"}
	secure := func(ids ...string) server.Hello {
		return server.Hello{Peer: "127.0.0.1:40000", Secure: true, Identities: ids}
	}
	vouchedBy := func(cluster string) server.Hello {
		h := secure("spiffe://cluster.local/ns/shop/sa/gateway")
		h.Cluster = cluster
		return h
	}
	tests := []struct {
		name  string
		plain feed.PlainText
		hello server.Hello
		want  bool
	}{
		{"plain text, by default", "", loopback, false},
		{"plain text from this machine", feed.PlainTextLoopback, loopback, true},
		{"plain text from another", feed.PlainTextLoopback, elsewhere, false},
		{"plain text from anyone", feed.PlainTextAnyone, elsewhere, true},
		{"TLS without a certificate, though on this machine", feed.PlainTextAnyone, secure(), false},
		{"an identity of the namespace", "", secure("spiffe://cluster.local/ns/shop/sa/gateway"), true},
		{"an identity of another namespace", "", secure("spiffe://cluster.local/ns/other/sa/gateway"), false},
		{"a namespace that only begins alike", "", secure("spiffe://cluster.local/ns/shop-2/sa/gateway"), false},
		{"an identity that is none", "", secure("https://cluster.local/ns/shop/sa/gateway"), false},
	}
	for _, test := range tests {
		r := New(Options{PlainText: test.plain})
		if _, got := r.verifiedAccount(&mesh.Proxy{Namespace: "shop"}, test.hello); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	// A proxy cannot choose the API server that is asked for the permissions of its account.
	for _, test := range []struct {
		name    string
		hello   server.Hello
		claimed mesh.ClusterID
		want    mesh.ClusterID // "": no keys
	}{
		{"in the cluster that vouches for it", vouchedBy("east"), "east", "east"},
		{"in the cluster that vouches for it, by an alias", vouchedBy("old-east"), "east", "east"},
		{"in our own", vouchedBy("Kubernetes"), "Kubernetes", "Kubernetes"},
		{"in our own, which it does not name", vouchedBy("Kubernetes"), "", "Kubernetes"},
		{"of ours, claims another", vouchedBy("Kubernetes"), "east", ""},
		{"of another, claims ours", vouchedBy("east"), "Kubernetes", ""},
		{"of another, claims none", vouchedBy("east"), "", ""},
		{"by a certificate alone, claims ours", vouchedBy(""), "Kubernetes", "Kubernetes"},
		{"by a certificate alone, claims another", vouchedBy(""), "east", ""},
	} {
		r := New(Options{Cluster: "Kubernetes", Aliases: map[mesh.ClusterID]mesh.ClusterID{"old-east": "east"}})
		account, got := r.verifiedAccount(&mesh.Proxy{Namespace: "shop", ClusterID: test.claimed}, test.hello)
		if got != (test.want != "") || account.Cluster != test.want {
			t.Errorf("%s: %v of cluster %q, want %q", test.name, got, account.Cluster, test.want)
		}
	}
}
