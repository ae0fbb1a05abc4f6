package discovery

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	transport "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	security "istio.io/api/security/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// inCluster starts a control plane that reads from an API server.
func inCluster(t *testing.T, c *cluster.Cluster, namespace string, change func(*Options)) *laptop {
	t.Helper()
	return inClusterWith(t, c, namespace, nil, change)
}

// inClusterWith is inCluster with a directory of config files: ".mesh" is the mesh configuration.
func inClusterWith(t *testing.T, c *cluster.Cluster, namespace string, files map[string]string, change func(*Options)) *laptop {
	t.Helper()
	l := &laptop{secure: serving.FreeAddress(t)}
	l.controlPlane = startWith(t, files, func(o *Options) {
		o.ConfigDir, o.Registries, o.Kubernetes.Kubeconfig = "", []string{"Kubernetes"}, c.Kubeconfig()
		o.Namespace, o.SecureGRPCAddr, o.PodName = namespace, l.secure, freePod()
		change(o)
	})
	l.names = "istiod." + namespace + ".svc"
	return l
}

func freePod() string { return "istiod-" + strings.ToLower(time.Now().Format("150405.000000000")[7:]) }

// TestCertificatesWithKubernetes checks that two replicas create one shared root and publish it,
// and that they authenticate workloads by tokens of the API server.
func TestCertificatesWithKubernetes(t *testing.T) {
	c := shared.Start(t)
	client := c.Client(t)
	control, shop := c.Namespace(t, "istio-system", nil), c.Namespace(t, "shop", nil)
	if _, err := client.CoreV1().ServiceAccounts(shop).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	replicas := []*laptop{inCluster(t, c, control, func(*Options) {}), inCluster(t, c, control, func(*Options) {})}
	var root string
	replicas[0].eventually("the root is in the namespace", func() error {
		m, err := client.CoreV1().ConfigMaps(shop).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		root = m.Data["root-cert.pem"]
		return err
	})
	secret, err := client.CoreV1().Secrets(control).Get(t.Context(), "istio-ca-secret", metav1.GetOptions{})
	if err != nil || string(secret.Data["root-cert.pem"]) != root || secret.Type != "istio.io/ca-root" {
		t.Errorf("Secret of type %v, %v; want type istio.io/ca-root with the published root", secret.Type, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(root))
	token := c.Token(t, shop, "web", "istio-ca")
	for i, r := range replicas {
		r.trust = pool
		own, err := r.certificate(bearing(t.Context(), token), nil, new(security.IstioCertificateRequest))
		if err != nil {
			t.Fatal(err)
		}
		other := replicas[1-i]
		other.trust = pool
		if _, err := other.ask(t.Context(), own, node(shop, map[string]any{"SERVICE_ACCOUNT": "web"}), api.ClusterType); err != nil {
			t.Errorf("a certificate signed by one replica is not accepted by the other: %v", err)
		}
		for name, wrong := range map[string]string{"the API server": c.Token(t, shop, "web"), "others": c.Token(t, shop, "web", "other")} {
			if _, err := r.certificate(bearing(t.Context(), wrong), nil, new(security.IstioCertificateRequest)); status.Code(err) != codes.Unauthenticated {
				t.Errorf("a token with audience %s: %v, want Unauthenticated", name, err)
			}
			if _, err := r.ask(bearing(t.Context(), wrong), nil, node(shop, nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
				t.Errorf("xDS: a token with audience %s: %v, want Unauthenticated", name, err)
			}
		}
	}
	if _, err := replicas[0].ask(bearing(t.Context(), token), nil, node("default", nil), api.ClusterType); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a proxy with the node of another namespace: %v, want PermissionDenied", err)
	}

	if _, err := replicas[0].ask(t.Context(), nil, node(shop, nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a proxy without credentials over TLS: %v, want Unauthenticated", err)
	}
}

// TestPluggedAuthority: when an operator replaces the root while proxies are connected,
// certificates are signed by the new authority and the published roots change.
func TestPluggedAuthority(t *testing.T) {
	c := shared.Start(t)
	client := c.Client(t)
	control := c.Namespace(t, "istio-system", nil)
	a, b := newPluggedAuthority(t, "A"), newPluggedAuthority(t, "B")
	secrets := client.CoreV1().Secrets(control)
	put := func(signing *authorityPair, roots ...*authorityPair) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cacerts"}, Data: signing.files(roots...)}
		if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(a, a)
	l := inCluster(t, c, control, func(*Options) {})
	serves := func(by *authorityPair) func() error {
		return func() error {
			conn, err := tls.Dial("tcp", l.secure, &tls.Config{RootCAs: by.Pool(), ServerName: l.names, NextProtos: []string{"h2"}})
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	published := func(want int) func() error {
		return func() error {
			m, err := client.CoreV1().ConfigMaps(control).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
			if n := strings.Count(m.Data["root-cert.pem"], "BEGIN"); err == nil && n != want {
				err = errors.New("the ConfigMap has another number of roots")
			}
			return err
		}
	}
	l.eventually("A signs the serving certificate", serves(a))
	l.eventually("root A is published", published(1))
	put(a, a, b)
	l.eventually("both roots are published", published(2))
	put(b, a, b)
	l.eventually("B signs the serving certificate", serves(b))
	put(b, b)
	l.eventually("root B is published", published(1))
	revoked := string(b.Revoke(b.Certificate.SerialNumber))
	patch, err := json.Marshal(map[string]any{"stringData": map[string]string{"ca-crl.pem": revoked}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Patch(t.Context(), "cacerts", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually("the revocation list of B is published", func() error {
		m, err := client.CoreV1().ConfigMaps(control).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		if err == nil && m.Data["ca-crl.pem"] != revoked {
			err = fmt.Errorf("ca-crl.pem = %q", m.Data["ca-crl.pem"])
		}
		return err
	})
	if _, err := secrets.Get(t.Context(), "istio-ca-secret", metav1.GetOptions{}); err == nil {
		t.Error("a root was created although the operator provides one")
	}
}

// dialTo connects as a laptop does, with the given trusted roots.
func dialTo(address, name string, trust *x509.CertPool, own *tls.Certificate) (*grpc.ClientConn, error) {
	config := &tls.Config{RootCAs: trust, ServerName: name}
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(transport.NewTLS(config)))
}
