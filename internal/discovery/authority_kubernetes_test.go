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

// inCluster runs a control plane that reads an API server.
func inCluster(t *testing.T, c *cluster.Cluster, namespace string, change func(*Options)) *laptop {
	t.Helper()
	return inClusterWith(t, c, namespace, nil, change)
}

// inClusterWith has files besides: ".mesh" is the mesh configuration.
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

// TestCertificatesWithKubernetes has two replicas, which make one root, publish it, and know who is who by an API server.
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
		t.Errorf("the Secret is %v, %v", secret.Type, err)
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
			t.Errorf("what one replica has signed is nothing to the other: %v", err)
		}
		for name, wrong := range map[string]string{"the API server": c.Token(t, shop, "web"), "others": c.Token(t, shop, "web", "other")} {
			if _, err := r.certificate(bearing(t.Context(), wrong), nil, new(security.IstioCertificateRequest)); status.Code(err) != codes.Unauthenticated {
				t.Errorf("a token for %s is taken: %v", name, err)
			}
			if _, err := r.ask(bearing(t.Context(), wrong), nil, node(shop, nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
				t.Errorf("xDS: a token for %s is taken: %v", name, err)
			}
		}
	}
	if _, err := replicas[0].ask(bearing(t.Context(), token), nil, node("default", nil), api.ClusterType); status.Code(err) != codes.PermissionDenied {
		t.Errorf("it may be a proxy of another namespace: %v", err)
	}

	if _, err := replicas[0].ask(t.Context(), nil, node(shop, nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody is served over TLS: %v", err)
	}
}

// TestPluggedAuthority has an operator bring another root while proxies are connected: what is signed and who is trusted follow.
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
				err = errors.New("it has another number of roots")
			}
			return err
		}
	}
	l.eventually("A serves", serves(a))
	l.eventually("A is published", published(1))
	put(a, a, b)
	l.eventually("both are published", published(2))
	put(b, a, b)
	l.eventually("B serves", serves(b))
	put(b, b)
	l.eventually("B is published", published(1))
	revoked := string(b.Revoke(b.Certificate.SerialNumber))
	patch, err := json.Marshal(map[string]any{"stringData": map[string]string{"ca-crl.pem": revoked}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Patch(t.Context(), "cacerts", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually("what B has revoked is published", func() error {
		m, err := client.CoreV1().ConfigMaps(control).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		if err == nil && m.Data["ca-crl.pem"] != revoked {
			err = fmt.Errorf("it has %q", m.Data["ca-crl.pem"])
		}
		return err
	})
	if _, err := secrets.Get(t.Context(), "istio-ca-secret", metav1.GetOptions{}); err == nil {
		t.Error("a root was made though operators brought one")
	}
}

// dialTo connects as a laptop does, with what the test says is trusted.
func dialTo(address, name string, trust *x509.CertPool, own *tls.Certificate) (*grpc.ClientConn, error) {
	config := &tls.Config{RootCAs: trust, ServerName: name}
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(transport.NewTLS(config)))
}
