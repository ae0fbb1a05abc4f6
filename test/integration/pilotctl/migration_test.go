package pilotctl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// istiodInstallation is istiod of a cluster, with a variable that this control plane does not have,
// and an object of the ambient mode.
const istiodInstallation = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: SYSTEM}
spec:
  selector: {matchLabels: {app: istiod}}
  template:
    metadata: {labels: {app: istiod}}
    spec:
      containers:
      - name: discovery
        image: docker.io/istio/pilot:1.31.0
        args: [discovery, --plugins=authn]
        env: [{name: PILOT_ENABLE_MYSQL_FILTER, value: "true"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio-canary, namespace: SYSTEM}
data: {mesh: "enableEnvoyAccessLogService: true"}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: db, namespace: SHOP}
spec: {hosts: [db], tcp: [{route: [{destination: {host: db}}]}]}
`

// TestCheckMigration reads an installation of istiod from the cluster: the objects, the Deployment,
// the mesh configuration of a revision, and a pod with a proxy of Istio.
func TestCheckMigration(t *testing.T) {
	l := newLabAlone(t)
	l.pilotctl("check-migration").want(t, 0, "0 not served, ")
	l.apply(strings.NewReplacer("SYSTEM", l.system, "SHOP", l.shop).Replace(istiodInstallation))
	l.labelNamespace(l.shop, map[string]string{"istio.io/dataplane-mode": "ambient"})
	l.pod(l.shop, "web", map[string]string{"app": "web"}, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1"}}
		p.Spec.Containers[0].Name, p.Spec.Containers[0].Image = "istio-proxy", "docker.io/istio/proxyv2:1.31.0"
	})
	l.pilotctl("check-migration").want(t, 79,
		"[mysql-filter] Deployment istiod."+l.system+" PILOT_ENABLE_MYSQL_FILTER: ",
		"[argument] Deployment istiod."+l.system+" --plugins: ",
		"[access-log-service] ConfigMap istio-canary."+l.system+" enableEnvoyAccessLogService: ",
		"[ambient-workloads] Namespace "+l.shop+" metadata.labels[istio.io/dataplane-mode]: ",
		"[istio-proxy-image] Pod web."+l.shop+" spec.containers[0].image: ",
		"[tcp-routes-by-ecds] VirtualService db."+l.shop+" spec.tcp: ",
		"2 issues found when analyzing the cluster",
	)
}
