package translate

import (
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// randomNews returns a random event about something that no object of the config cluster contains:
// services and endpoints of another cluster, rights of accounts to read Secrets, keys of token
// issuers, or Secrets. It also returns a text that describes the event.
func randomNews(r *rand.Rand) (e mesh.Event, text string) {
	if r.IntN(3) == 0 {
		e.Op = mesh.Delete
	}
	cluster := mesh.ClusterID([]string{"remote", "third"}[r.IntN(2)])
	key := mesh.ServiceKey{
		Namespace: "default",
		Host:      mesh.Hostname([]string{"static", "a", "only-there"}[r.IntN(3)] + ".default.svc.cluster.local"),
	}
	from := config.Key{Kind: api.Service, Namespace: "default", Name: string(key.Host)}
	switch r.IntN(6) {
	case 0, 1:
		s := mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Cluster: cluster, Resolution: mesh.Static, From: from,
			Addresses: []string{
				fmt.Sprintf("10.97.%d.%d", len(cluster), r.IntN(2)),
			}, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
		}
		if r.IntN(3) == 0 { // a gateway of its network
			s.Labels, s.External = map[string]string{
				"topology.istio.io/network": "far",
			}, []string{fmt.Sprintf("203.0.113.%d", 3+r.IntN(2))}
			s.Ports = append(
				s.Ports,
				mesh.Port{Name: "tls", Number: mesh.DefaultNetworkGatewayPort, Protocol: mesh.TLS},
			)
		}
		e.Service = s.Sealed()
	case 2:
		e.Shard = mesh.Shard{
			Service: key, Key: mesh.ShardKey{Provider: mesh.Kubernetes, Cluster: cluster, Object: from},
			Endpoints: []*mesh.Endpoint{
				{
					Address:     fmt.Sprintf("10.1.0.%d", 1+r.IntN(3)),
					Port:        80,
					ServicePort: "http",
					Cluster:     cluster,
					Network:     "far",
					TLS:         r.IntN(2) == 0,
				},
			},
		}.Sealed()
	case 3:
		e.SecretAccess = &mesh.SecretAccess{
			Account: mesh.Account{
				Cluster:   []mesh.ClusterID{"Kubernetes", "remote"}[r.IntN(2)],
				Namespace: "default",
				Name:      "gw",
			},
			Allowed: r.IntN(2) == 0,
		}
	case 4:
		e.KeySet = &mesh.KeySet{
			Source: []mesh.KeySource{
				{URI: "http://static.default.svc.cluster.local/keys"},
				{URI: "https://dns.example.com:80/keys"},
				{Issuer: "https://dns.example.com"},
			}[r.IntN(3)],
			Text:  []string{"", `{"keys":[{"k":"YQ","kty":"oct"}]}`, `{"keys":[{"k":"Yg","kty":"oct"}]}`}[r.IntN(3)],
			Fault: []string{"", "away"}[r.IntN(2)],
		}
	default:
		e.Config = randomSecret(r)
	}
	return e, fmt.Sprintf("%s of %+v %+v %+v %+v %+v\n", e.Op, e.Service, e.Shard, e.SecretAccess, e.KeySet, e.Config)
}

// randomSecret returns a Secret with a certificate, or a ReferenceGrant for a Secret of another
// namespace.
func randomSecret(r *rand.Rand) *config.Config {
	if r.IntN(3) == 0 {
		meta := config.Meta{Key: config.Key{Kind: api.ReferenceGrant, Namespace: "other", Name: "grant"}}
		return mustConfig(meta, &gatewayv1.ReferenceGrant{Spec: gatewayv1.ReferenceGrantSpec{
			From: []gatewayv1.ReferenceGrantFrom{
				{
					Group:     "gateway.networking.k8s.io",
					Kind:      "Gateway",
					Namespace: gatewayv1.Namespace([]string{"default", "elsewhere"}[r.IntN(2)]),
				},
			},
			To: []gatewayv1.ReferenceGrantTo{{Kind: "Secret"}},
		}})
	}
	pair := somePairs()[r.IntN(2)]
	meta := config.Meta{
		Key: config.Key{Kind: api.Secret, Namespace: []string{"default", "other"}[r.IntN(2)], Name: "cert"},
	}
	return mustConfig(meta, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name, Namespace: meta.Namespace},
		Data:       map[string][]byte{"tls.crt": pair.CertificatePEM(), "tls.key": pair.KeyPEM()},
	})
}

var somePairs = sync.OnceValue(func() (list [2]*pki.Pair) {
	for i := range list {
		list[i] = pki.SelfSigned(&x509.Certificate{DNSNames: []string{"dns.example.com"}})
	}
	return list
})

func mustConfig(meta config.Meta, spec any) *config.Config {
	c, err := config.New(meta, spec)
	if err != nil {
		panic(err) // of our own making
	}
	return c
}
