package networks

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
)

// external is the namespace of a control plane that runs in another cluster than that whose mesh it is, and of its configuration there.
const external = "external-istiod"

// externalService is how a cluster reaches a control plane in another one.
const externalService = `
apiVersion: v1
kind: Service
metadata: {name: istiod-external, namespace: external-istiod}
spec:
  type: LoadBalancer
  selector: {app: istiod}
  ports:
  - {name: tls-istiod, port: 15012}
  - {name: tls-webhook, port: 15017}
`

// playExternal: the mesh is that of cluster two: workloads, configuration, webhooks, roots. Its control plane runs in cluster one, of
// which it reads nothing but, here, services, by a Secret that is found where it runs.
func playExternal(t *testing.T, one, two site) {
	for _, s := range []site{one, two} {
		s.namespace(external, nil, nil)
		s.do("delete", "mutatingwebhookconfigurations", "--all")
	}
	one.apply(externalService)
	address := one.loadBalancer(external, "istiod-external")

	two.install(
		mesh.Chart{Release: "istio-base", Chart: "base", Namespace: system, Set: []string{"base.enableCRDTemplates=true"}},
		mesh.Chart{Release: "istiod-external", Chart: "istiod", Namespace: external, Set: []string{
			"istiodRemote.enabled=true", "global.configCluster=true", "global.remotePilotAddress=" + address, "global.configValidation=false",
			"istiodRemote.injectionURL=https://" + address + ":15017/inject/cluster/two/net/far", "global.istioNamespace=" + external,
		}},
	)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-kubeconfig"}, Data: map[string][]byte{"config": two.kubeconfig(external, "istiod")},
	}
	if _, err := one.admin.CoreV1().Secrets(external).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one.install(mesh.Chart{Release: "istiod-external", Chart: "istiod", Namespace: external, Set: []string{
		"global.externalIstiod=true", "global.multiCluster.clusterName=two", "autoscaleEnabled=false", "global.configValidation=false",
		"global.operatorManageWebhooks=true", "env.ISTIOD_CUSTOM_HOST=" + address, "env.LOCAL_CLUSTER_SECRET_WATCHER=true",
	}})

	two.apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`)
	bundle := func() string {
		return two.do("get", "mutatingwebhookconfigurations", "-o", "jsonpath={.items[*].webhooks[0].clientConfig.caBundle}")
	}
	until(t, "the webhook is trusted", func() error {
		if bundle() == "" {
			return fmt.Errorf("it has no bundle")
		}
		return nil
	})
	root := func() string {
		return two.do("-n", shop, "get", "configmap", "istio-ca-root-cert", "-o", "jsonpath={.data.root-cert\\.pem}")
	}
	until(t, "the root is published", func() error {
		want, err := base64.StdEncoding.DecodeString(bundle())
		if err != nil {
			return err
		}
		if got := root(); strings.TrimSpace(got) != strings.TrimSpace(string(want)) {
			return fmt.Errorf("it is %.80q, the webhook's bundle %.80q", got, want)
		}
		return nil
	})
	two.web("v1", 2, "")
	two.rolledOut(shop, "web-v1")
	caller := two.client()
	until(t, "calls of pods that were injected from far away are answered", func() error { return caller.call(calls).all("two/", calls, 2) })

	one.register(one, external, "istio-reader-service-account")
	until(t, "the Secret beside the control plane is found", one.debug(external, "clusterz", `"id":"one"`))
	until(t, "its remote cluster is in sync", func() error {
		if err := one.debug(external, "clusterz", "syncing")(); err == nil {
			return fmt.Errorf("it is not")
		}
		return one.debug(external, "registryz", "istio-eastwestgateway")()
	})
}
