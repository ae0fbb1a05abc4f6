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

// playExternal runs the control plane of cluster west in cluster east. Workloads, configuration, webhooks
// and roots are in west; from east it reads only services, by a Secret in the cluster that it runs in.
func playExternal(t *testing.T, east, west site) {
	for _, s := range []site{east, west} {
		s.namespace(external, nil, nil)
		s.do("delete", "mutatingwebhookconfigurations", "--all")
		s.do("delete", "validatingwebhookconfigurations", "--all")
	}
	east.apply(externalService)
	address := east.loadBalancer(external, "istiod-external")

	west.install(
		mesh.Chart{Release: "istio-base", Chart: "base", Namespace: system, Set: []string{
			"base.enableCRDTemplates=true", "global.istioNamespace=" + external,
		}},
		mesh.Chart{Release: "istiod-external", Chart: "istiod", Namespace: external, Set: []string{
			"istiodRemote.enabled=true", "global.configCluster=true", "global.remotePilotAddress=" + address, "global.configValidation=false",
			"istiodRemote.injectionURL=https://" + address + ":15017/inject/cluster/west/net/far", "global.istioNamespace=" + external,
		}},
	)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-kubeconfig"}, Data: map[string][]byte{"config": west.kubeconfig(external, "istiod")},
	}
	if _, err := east.admin.CoreV1().Secrets(external).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	east.install(mesh.Chart{Release: "istiod-external", Chart: "istiod", Namespace: external, Set: []string{
		"global.externalIstiod=true", "global.multiCluster.clusterName=west", "autoscaleEnabled=false", "global.configValidation=false",
		"global.operatorManageWebhooks=true", "env.ISTIOD_CUSTOM_HOST=" + address, "env.LOCAL_CLUSTER_SECRET_WATCHER=true",
	}})

	west.apply(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`)
	bundle := func() string {
		return west.do("get", "mutatingwebhookconfigurations", "-o", "jsonpath={.items[*].webhooks[0].clientConfig.caBundle}")
	}
	until(t, "the webhook is trusted", func() error {
		if bundle() == "" {
			return fmt.Errorf("it has no bundle")
		}
		return nil
	})
	root := func() string {
		return west.do("-n", shop, "get", "configmap", "istio-ca-root-cert", "-o", "jsonpath={.data.root-cert\\.pem}")
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
	west.web("v1", 2, "")
	west.rolledOut(shop, "web-v1")
	caller := west.client()
	until(t, "calls of pods that were injected from far away are answered", func() error { return caller.call(calls).all("west/", calls, 2) })

	east.register(east, external, "istio-reader-service-account")
	until(t, "the Secret beside the control plane is found", east.debug(external, "clusterz", `"id":"east"`))
	until(t, "its remote cluster is in sync", func() error {
		if err := east.debug(external, "clusterz", "syncing")(); err == nil {
			return fmt.Errorf("it is not")
		}
		return east.debug(external, "registryz", "istio-eastwestgateway")()
	})
}
