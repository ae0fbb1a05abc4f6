package pilotctl

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// injector is the webhook configuration of a revision, with one webhook for namespaces that name it.
func injector(revision string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: istio-sidecar-injector-` + revision + `, labels: {app: sidecar-injector, istio.io/rev: "` + revision + `"}}
webhooks:
- name: rev.namespace.sidecar-injector.istio.io
  clientConfig: {service: {name: istiod-` + revision + `, namespace: istio-system, path: /inject, port: 443}}
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  timeoutSeconds: 1
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  namespaceSelector: {matchExpressions: [{key: istio.io/rev, operator: In, values: ["` + revision + `"]}, {key: istio-injection, operator: DoesNotExist}]}
  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}]}
`
}

// labelNamespace sets the labels of a namespace; an empty value removes one.
func (l *lab) labelNamespace(name string, labels map[string]string) {
	l.Helper()
	n, err := l.client.Kubernetes.CoreV1().Namespaces().Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	for k, v := range labels {
		if n.Labels[k] = v; v == "" {
			delete(n.Labels, k)
		}
	}
	if _, err := l.client.Kubernetes.CoreV1().Namespaces().Update(l.Context(), n, metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// TestTagsAndInjection sets, moves and removes a tag of two revisions, and looks at each step which of
// them injects a pod.
func TestTagsAndInjection(t *testing.T) {
	l := newLabAlone(t)
	l.pilotctl("check-inject", "-l", "app=web", "-n", l.shop).want(t, 5, "no injection webhook is installed")
	l.pilotctl("revision", "list").want(t, 0, "no revision is installed")
	l.apply(injector("old") + "---" + injector("new"))
	l.pod(l.shop, "web", map[string]string{"app": "web"}, nil)
	l.pod(l.shop, "hosted", nil, func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	l.pod(l.system, "istiod-old", map[string]string{"app": "istiod", "istio.io/rev": "old"}, nil)

	l.pilotctl("check-inject", "web."+l.shop).want(t, 5, "istio-sidecar-injector-old", "neither the namespace nor the pod has the label istio.io/rev=old")
	l.pilotctl("tag", "set", "prod").want(t, 1, "--revision is required")
	l.pilotctl("tag", "set", "prod", "--revision", "absent").want(t, 1, `revision "absent" has no injection webhooks; installed are: new, old`)
	l.pilotctl("tag", "set", "new", "--revision", "old").want(t, 1, "there is a revision of this name")
	l.pilotctl("tag", "set", "a b", "--revision", "old").want(t, 1, "want a label value")
	l.pilotctl("tag", "generate", "prod", "--revision", "old").want(t, 0, "name: istiod-old", "istio.io/tag: prod")
	l.pilotctl("tag", "list").want(t, 0, "no tags")
	l.pilotctl("tag", "set", "prod", "--revision", "old").want(t, 0, `tag "prod" names revision "old"`)
	l.labelNamespace(l.shop, map[string]string{"istio.io/rev": "prod"})
	l.pilotctl("tag", "list").want(t, 0, "prod   old        "+l.shop)
	l.pilotctl("check-inject", "web."+l.shop).want(t, 0, "old (tag prod)   yes        namespace label istio.io/rev=prod")
	l.pilotctl("check-inject", "-n", l.shop, "-l", "sidecar.istio.io/inject=false").want(t, 5, "pod label sidecar.istio.io/inject=false")
	l.pilotctl("check-inject", "hosted", "-n", l.shop).want(t, 5, "hostNetwork")
	l.pilotctl("check-inject", "absent", "-n", l.shop).want(t, 1, `pods "absent" not found`)
	l.pilotctl("revision", "list").want(t, 0, "old        prod   1      pilot    "+l.shop)
	l.pilotctl("revision", "describe", "old").want(t, 0, "istiod-old", "istio-revision-tag-prod-"+l.system)
	l.pilotctl("revision", "describe", "absent").want(t, 1, `revision "absent" is not installed`)

	l.pilotctl("tag", "set", "prod", "--revision", "new").want(t, 1, "the tag exists, for revision old; --overwrite changes it")
	l.pilotctl("tag", "set", "prod", "--revision", "new", "--overwrite").want(t, 0)
	l.pilotctl("check-inject", "web", "-n", l.shop).want(t, 0, "new (tag prod)   yes")
	l.pilotctl("tag", "remove", "prod").want(t, 1, "is used by the namespaces "+l.shop)
	l.pilotctl("tag", "remove", "prod", "-y").want(t, 0, `tag "prod" is removed`)
	l.pilotctl("tag", "remove", "prod").want(t, 1, `there is no tag "prod"`)

	// The tag default is for namespaces that name no revision.
	l.pilotctl("tag", "set", "default", "--revision", "new").want(t, 0)
	l.labelNamespace(l.shop, map[string]string{"istio.io/rev": "", "istio-injection": "enabled"})
	r := l.pilotctl("check-inject", "web", "-n", l.shop)
	r.want(t, 0, "new (tag default)   yes        namespace label istio-injection=enabled")
	if strings.Count(r.out, " yes ") != 1 {
		t.Errorf("more than one webhook injects:\n%s", r.out)
	}
	nobody := l.cluster.KubeconfigOf(t, l.cluster.UserConfig("nobody"))
	l.pilotctl("tag", "list", "--kubeconfig", nobody).want(t, 1, `User "nobody" cannot list resource "mutatingwebhookconfigurations"`)
}

// readerAccount returns the service account whose token a control plane reads a cluster with.
func readerAccount(namespace string) string {
	return `
apiVersion: v1
kind: ServiceAccount
metadata: {name: istio-reader-service-account, namespace: ` + namespace + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: istio-reader-service-account, namespace: ` + namespace + `}]
`
}

// TestRemoteSecret creates a Secret for a control plane, which reads a cluster with it.
func TestRemoteSecret(t *testing.T) {
	l := newLabAlone(t)
	l.pilotctl("create-remote-secret").want(t, 1, "--name is required")
	l.pilotctl("create-remote-secret", "--name", "west").want(t, 1, "istio-reader-service-account", "not found")
	l.apply(readerAccount(l.system))
	r := l.pilotctl("create-remote-secret", "--name", "west", "--token-duration", "1h")
	r.want(t, 0, "istio-remote-secret-west", `istio/multiCluster: "true"`)
	var secret corev1.Secret
	if err := yaml.Unmarshal([]byte(r.out), &secret); err != nil {
		t.Fatal(err)
	}
	l.apply(r.out)
	l.replica("istiod-a", "default", nil)
	l.eventually("the remote cluster is read", func() error {
		if r := l.pilotctl("remote-clusters"); !strings.Contains(r.out, "west") || !strings.Contains(r.out, "synced") {
			return fmt.Errorf("%s%s", r.out, r.errors)
		}
		return nil
	})

	// A token that does not expire comes from a Secret that the token controller fills.
	tokens := l.client.Kubernetes.CoreV1().Secrets(l.system)
	done := make(chan result, 1)
	go func() {
		done <- l.pilotctl("create-remote-secret", "--name", "west", "--server", "https://west.example.com:6443")
	}()
	l.eventually("the Secret is created", func() error {
		s, err := tokens.Get(t.Context(), "istio-reader-service-account-istio-remote-secret-token", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Data["token"]) > 0 {
			return nil
		}
		s.Data = map[string][]byte{"token": []byte("from-the-controller")}
		_, err = tokens.Update(t.Context(), s, metav1.UpdateOptions{})
		return err
	})
	(<-done).want(t, 0, "from-the-controller", "https://west.example.com:6443")
}
