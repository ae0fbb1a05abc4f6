package multicluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// objects writes custom objects into a cluster.
type objects struct {
	t      *testing.T
	client *kube.Client
}

func newObjects(t *testing.T, c *cluster.Cluster) objects {
	t.Helper()
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return objects{t, client}
}

func (o objects) resource(u *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := u.GroupVersionKind()
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

func (o objects) parse(text string) *unstructured.Unstructured {
	o.t.Helper()
	u := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		o.t.Fatal(err)
	}
	return u
}

func (o objects) create(text string) {
	o.t.Helper()
	u := o.parse(text)
	if _, err := o.client.Dynamic.Resource(o.resource(u)).Namespace(u.GetNamespace()).Create(o.t.Context(), u, metav1.CreateOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

func (o objects) remove(text string) {
	o.t.Helper()
	u := o.parse(text)
	if err := o.client.Dynamic.Resource(o.resource(u)).Namespace(u.GetNamespace()).Delete(o.t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

// certificates makes them, and puts them into Secrets.
type certificates struct {
	t      *testing.T
	admin  *kubernetes.Clientset
	issuer *pki.Pair
}

func (c certificates) storePair(namespace, name string) *pki.Pair {
	c.t.Helper()
	pair := c.issuer.Issue(&x509.Certificate{DNSNames: []string{"localhost"}})
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": pair.CertificatePEM(), "tls.key": pair.KeyPEM()},
	}
	_, err := c.admin.CoreV1().Secrets(namespace).Update(c.t.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = c.admin.CoreV1().Secrets(namespace).Create(c.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return pair
}

// serves returns a check that TLS connections to a port are shown a certificate; nil: that none succeeds.
func (c certificates) serves(port int, want *pki.Pair) func() error {
	return func() error {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
			&tls.Config{RootCAs: c.issuer.Pool(), ServerName: "localhost"})
		switch {
		case err != nil && want == nil:
			return nil
		case err != nil:
			return err
		}
		defer conn.Close()
		got := conn.ConnectionState().PeerCertificates[0].Raw
		if want == nil || !bytes.Equal(got, want.Certificate.Raw) {
			return errors.New("another certificate is served")
		}
		return nil
	}
}

// readSecrets lets a service account read the Secrets of its namespace.
func readSecrets(t *testing.T, admin *kubernetes.Clientset, namespace, account string) (revoke func()) {
	t.Helper()
	return readSecretsAs(t, admin, namespace, "read-secrets", cluster.ServiceAccount(namespace, account))
}

func readSecretsAs(t *testing.T, admin *kubernetes.Clientset, namespace, name string, who rbacv1.Subject) (revoke func()) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}}
	if _, err := admin.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{who},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := admin.RbacV1().RoleBindings(namespace).Delete(t.Context(), meta.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func gatewayOf(namespace, name, label string, port int, credential string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %s, namespace: %s}
spec:
  selector: {gateway: %s}
  servers:
  - {port: {number: %d, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: %q}}
`, name, namespace, label, port, credential)
}

// TestGatewaySecret (T-GW-SECRET): a private key is sent only to a gateway in the Secret's
// namespace whose account may read Secrets there, and only while it may. For another namespace a
// ReferenceGrant is needed.
func TestGatewaySecret(t *testing.T) {
	longtest.Test(t)
	envoy.RequireBinary(t)
	c := shared.Start(t)
	admin, o := c.Client(t), newObjects(t, c)
	system, shop, vault := c.Namespace(t, "istio-system-", nil), c.Namespace(t, "shop-", nil), c.Namespace(t, "vault-", nil)
	certs := certificates{t, admin, pki.Authority("shop")}
	first := certs.storePair(shop, "cert")
	theirs := certs.storePair(vault, "theirs")
	own, refused, granted, foreign := serving.FreePort(t), serving.FreePort(t), serving.FreePort(t), serving.FreePort(t)
	o.create(gatewayOf(shop, "own", "good", own, "cert"))
	o.create(gatewayOf(shop, "refused", "bad", refused, "cert"))
	o.create(gatewayOf(shop, "granted", "good", granted, "kubernetes-gateway://"+vault+"/theirs"))
	o.create(gatewayOf(shop, "foreign", "good", foreign, vault+"/theirs"))
	revoke := readSecrets(t, admin, shop, "good")

	p := startControlPlane(t, c, system, func(*discovery.Options) {})
	proxy{
		kind: "router", address: "127.0.0.1", name: "good-1", namespace: shop, labels: "gateway: good", token: c.Token(t, shop, "good", "istio-ca"),
	}.run(t, p)
	proxy{
		kind: "router", address: "127.0.0.2", name: "bad-1", namespace: shop, labels: "gateway: bad", token: c.Token(t, shop, "bad", "istio-ca"),
	}.run(t, p)
	p.until("the gateway serves", patience, certs.serves(own, first))

	before := p.pushes()
	second := certs.storePair(shop, "cert")
	p.until("the new certificate is served", patience, certs.serves(own, second))
	after := p.pushes()
	before["sds"]++
	for kind, n := range after {
		if n != before[kind] {
			t.Errorf("a new certificate took %d pushes of %s, want %d", n-before[kind], kind, map[bool]int{true: 1}[kind == "sds"])
		}
	}

	grant := fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: shop, namespace: %s}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: %s}]
  to: [{group: "", kind: Secret, name: theirs}]
`, vault, shop)
	if err := certs.serves(granted, nil)(); err != nil {
		t.Errorf("a Secret of another namespace without a grant: %v", err)
	}
	o.create(grant)
	p.until("the granted Secret is served", patience, certs.serves(granted, theirs))
	o.remove(grant)
	p.until("the grant is withdrawn", 5*time.Second, certs.serves(granted, nil))

	revoke()
	p.until("the right is withdrawn", 5*time.Second, certs.serves(own, nil))
	readSecrets(t, admin, shop, "good")
	p.until("the right is back", patience, certs.serves(own, second))

	for port, what := range map[int]string{refused: "an account without the right", foreign: "a Secret of another namespace"} {
		if err := certs.serves(port, nil)(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if text, err := p.GetPage("/debug/nackz"); err != nil || strings.Contains(text, "resource") {
		t.Errorf("proxies refused %s (%v)", text, err)
	}
}
