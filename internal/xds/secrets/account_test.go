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
		{"an identity of a namespace with the same prefix", "", secure("spiffe://cluster.local/ns/shop-2/sa/gateway"), false},
		{"a URI that is not a SPIFFE ID", "", secure("https://cluster.local/ns/shop/sa/gateway"), false},
	}
	for _, test := range tests {
		r := New(Options{PlainText: test.plain})
		if _, got := r.verifiedAccount(&mesh.Proxy{Namespace: "shop"}, test.hello); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	// A proxy cannot choose the API server that is queried for the permissions of its account.
	for _, test := range []struct {
		name    string
		hello   server.Hello
		claimed mesh.ClusterID
		want    mesh.ClusterID // "": no keys
	}{
		{"claims the cluster that authenticated it", vouchedBy("east"), "east", "east"},
		{"claims an alias of the cluster that authenticated it", vouchedBy("old-east"), "east", "east"},
		{"claims the config cluster, authenticated by it", vouchedBy("Kubernetes"), "Kubernetes", "Kubernetes"},
		{"claims no cluster, authenticated by the config cluster", vouchedBy("Kubernetes"), "", "Kubernetes"},
		{"claims another cluster, authenticated by the config cluster", vouchedBy("Kubernetes"), "east", ""},
		{"claims the config cluster, authenticated by another", vouchedBy("east"), "Kubernetes", ""},
		{"claims no cluster, authenticated by another", vouchedBy("east"), "", ""},
		{"claims the config cluster, authenticated by certificate", vouchedBy(""), "Kubernetes", "Kubernetes"},
		{"claims another cluster, authenticated by certificate", vouchedBy(""), "east", ""},
	} {
		r := New(Options{Cluster: "Kubernetes", Aliases: map[mesh.ClusterID]mesh.ClusterID{"old-east": "east"}})
		account, got := r.verifiedAccount(&mesh.Proxy{Namespace: "shop", ClusterID: test.claimed}, test.hello)
		if got != (test.want != "") || account.Cluster != test.want {
			t.Errorf("%s: %v of cluster %q, want %q", test.name, got, account.Cluster, test.want)
		}
	}
}
