package multicluster

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// credentialReader returns a kubeconfig of an account that may also read Secrets of a namespace,
// and create access reviews.
func credentialReader(t *testing.T, c *cluster.Cluster, name, namespace string) string {
	t.Helper()
	readSecretsAs(t, c.Client(t), namespace, "control-plane-"+name, cluster.ServiceAccount("default", name))
	c.Grant(t, cluster.ServiceAccount("default", name), rbacv1.PolicyRule{
		APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"},
	})
	return reader(t, c, name)
}

// TestRemoteGatewaySecret: a gateway in a remote cluster gets the Secrets of that cluster, if its
// API server permits, and those of the config cluster where the remote one has none. They follow
// changes there, and are retained while the kubeconfig is rotated, while the API server is
// unreachable, and while the cluster is removed and added again.
func TestRemoteGatewaySecret(t *testing.T) {
	longtest.Test(t)
	envoy.RequireBinary(t)
	c1, c2 := shared.Start(t), other.Start(t)
	o := newObjects(t, c1)
	system, shop := c1.Namespace(t, "istio-system-", nil), c1.Namespace(t, "shop-", nil)
	two := site{t, "two", c2.Client(t)}
	two.namespace(system, nil)
	two.namespace(shop, nil)
	ours := certificates{t, c1.Client(t), pki.Authority("shop")}
	theirs := certificates{t, two.admin, ours.issuer}
	namesake := ours.storePair(shop, "cert") // the remote one takes precedence
	first, fallback := theirs.storePair(shop, "cert"), ours.storePair(shop, "common")
	port, common, refused := serving.FreePort(t), serving.FreePort(t), serving.FreePort(t)
	o.create(gatewayOf(shop, "own", "remote-good", port, "cert"))
	o.create(gatewayOf(shop, "common", "remote-good", common, "common"))
	o.create(gatewayOf(shop, "refused", "remote-bad", refused, "cert"))
	revoke := readSecrets(t, two.admin, shop, "good")
	readSecrets(t, ours.admin, shop, "bad") // it may read those of the config cluster, which it does not run in
	register(t, ours.admin, system, "two", credentialReader(t, c2, "keys-1-"+shop, shop))

	p := startControlPlane(t, c1, system, func(o *discovery.Options) { o.ClusterID = "one" })
	p.until("the other cluster is in sync", patience, p.is("two", "synced"))
	run := func(name, address string) {
		proxy{
			kind: "router", address: address, name: name + "-1", namespace: shop, labels: "gateway: remote-" + name, cluster: "two",
			token: c2.Token(t, shop, name, "istio-ca"),
		}.run(t, p)
	}
	run("good", "127.0.0.1")
	run("bad", "127.0.0.2")
	p.until("the remote cluster's certificate is served", patience, theirs.serves(port, first))
	p.until("the config cluster's is served where there is none", patience, ours.serves(common, fallback))
	if err := theirs.serves(refused, nil)(); err != nil {
		t.Errorf("an account without the right in its own cluster: %v", err)
	}

	second := theirs.storePair(shop, "cert")
	p.until("the renewed certificate is served", patience, theirs.serves(port, second))

	register(t, ours.admin, system, "two", credentialReader(t, c2, "keys-2-"+shop, shop))
	p.until("the new kubeconfig is used", patience, p.says("is read by its new kubeconfig"))
	if err := two.admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "keys-1-"+shop, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := theirs.serves(port, second)(); err != nil {
		t.Errorf("when the kubeconfig was rotated: %v", err)
	}
	third := theirs.storePair(shop, "cert")
	p.until("a renewed Secret is read with the new kubeconfig", patience, theirs.serves(port, third))

	c2.StopAPIServer()
	p.until("the failure is reported", patience, func() error {
		text, err := p.GetPage("/debug/problemz")
		if err == nil {
			err = contains(text, "kubernetes/two")
		}
		return err
	})
	if err := theirs.serves(port, third)(); err != nil {
		t.Errorf("while the API server is away: %v", err)
	}
	if err := c2.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoke()
	p.until("the right is withdrawn", patience, theirs.serves(port, nil))
	readSecrets(t, two.admin, shop, "good")
	p.until("the right is back", patience, theirs.serves(port, third))

	if err := ours.admin.CoreV1().Secrets(system).Delete(t.Context(), "istio-remote-secret-two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("the cluster is removed", patience, p.is("two", "unknown"))
	fourth := theirs.storePair(shop, "cert")
	register(t, ours.admin, system, "two", credentialReader(t, c2, "keys-3-"+shop, shop))
	p.until("what was renewed meanwhile is served when it is back", patience, theirs.serves(port, fourth))

	if err := two.admin.CoreV1().Secrets(shop).Delete(t.Context(), "cert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("the config cluster's counts when there is none", patience, ours.serves(port, namesake))
}
