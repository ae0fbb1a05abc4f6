package discovery

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/kube/admission"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// recordedWarnings are the warnings of an API server.
type recordedWarnings struct{ texts []string }

// HandleWarningHeader records a warning.
func (w *recordedWarnings) HandleWarningHeader(_ int, _, text string) {
	w.texts = append(w.texts, text)
}

// TestWebhooks: an API server calls the webhooks of a control plane, which has published its own CA
// certificate for them. Pods get the settings of the ConfigMap and the ProxyConfig objects, and
// invalid rules are refused.
func TestWebhooks(t *testing.T) {
	c := shared.Start(t)
	client := c.Client(t)
	control, shop := c.Namespace(t, "istio-system", nil), c.Namespace(t, "shop", nil)
	const revision = "webhooks"
	if _, err := client.CoreV1().ConfigMaps(control).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector-" + revision}, Data: cluster.InjectorConfig(t),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := serving.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	url := "https://localhost:" + port
	labels := map[string]string{"istio.io/rev": revision}
	none, fail, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, admissionregistrationv1.Ignore
	rule := func(group, resource string) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}
	}
	injectURL, validateURL := url+"/inject", url+"/validate"
	configs := client.AdmissionregistrationV1()
	if _, err := configs.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: control, Labels: labels},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "rev.namespace.sidecar-injector.istio.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &injectURL},
			Rules: rule("", "pods"), FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": shop}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configs.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: control, Labels: labels},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "rev.validation.istio.io", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &validateURL},
			Rules: rule("networking.istio.io", "*"), FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: labels},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	l := inCluster(t, c, control, func(o *Options) {
		o.HTTPSAddr, o.Revision = address, revision
		o.Authority.Hosts = []string{"localhost"}
		o.Webhooks = admission.Settings{Inject: true, InjectionConfigs: true, ValidationConfigs: true, NativeSidecars: "true"}
	})
	object := func(kind, spec string) error {
		return c.Apply(t.Context(), fmt.Sprintf("apiVersion: networking.istio.io/v1beta1\nkind: %s\nmetadata: {name: x, namespace: %s, labels: {istio.io/rev: %s}}\nspec: %s\n",
			kind, shop, revision, spec))
	}
	l.eventually("validation fails closed", func() error {
		v, err := configs.ValidatingWebhookConfigurations().Get(t.Context(), control, metav1.GetOptions{})
		if err == nil && *v.Webhooks[0].FailurePolicy != admissionregistrationv1.Fail {
			err = fmt.Errorf("failurePolicy %s", *v.Webhooks[0].FailurePolicy)
		}
		return err
	})
	err := object("VirtualService", "{hosts: [a], http: [{timeout: 1s, route: [{destination: {host: a}}], retries: {retryOn: \"nonsense \"}}]}")
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.http[0].retries.retryOn") {
		t.Errorf("an invalid rule: %v", err)
	}
	warnings := &recordedWarnings{}
	warned := c.Config()
	warned.WarningHandler = warnings
	dynamicClient, err := dynamic.NewForConfig(warned)
	if err != nil {
		t.Fatal(err)
	}
	typo := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule",
		"metadata": map[string]any{"name": "typo", "labels": map[string]any{"istio.io/rev": revision}},
		"spec":     map[string]any{"host": "wbe"},
	}}
	resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}
	if _, err := dynamicClient.Resource(resource).Namespace(shop).Create(t.Context(), typo, metav1.CreateOptions{}); err != nil {
		t.Error("a rule without a service:", err)
	}
	if text := strings.Join(warnings.texts, "\n"); !strings.Contains(text, `spec.host: no service has the host "wbe.`+shop) {
		t.Errorf("a rule without a service: the warnings are %q", text)
	}
	if err := object("ProxyConfig", "{environmentVariables: {COLOR: green}}"); err != nil {
		t.Error("a valid rule:", err)
	}
	l.eventually("pods are injected", func() error {
		p, err := client.CoreV1().Pods(shop).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if len(p.Spec.InitContainers) != 2 || p.Annotations["istio.io/rev"] != revision {
			t.Fatalf("unexpected pod %v", p)
		}
		for _, e := range p.Spec.InitContainers[1].Env {
			if e.Name == "COLOR" && e.Value == "green" {
				return nil
			}
		}
		return fmt.Errorf("the ProxyConfig is not applied: %v", p.Spec.InitContainers[1].Env)
	})
}

// TestWebhooksWithoutAPort tests that the HTTP port serves the webhooks if they have none.
func TestWebhooksWithoutAPort(t *testing.T) {
	c := shared.Start(t)
	control := c.Namespace(t, "istio-system", nil)
	if _, err := c.Client(t).CoreV1().ConfigMaps(control).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector"}, Data: cluster.InjectorConfig(t),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l := inCluster(t, c, control, func(o *Options) {
		o.HTTPSAddr, o.Webhooks = "", admission.Settings{Inject: true, NativeSidecars: "true"}
	})
	for path, test := range map[string]struct{ object, want string }{
		"/inject": {
			`{"metadata": {"name": "p", "labels": {"sidecar.istio.io/inject": "true"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}`,
			`"patchType":"JSONPatch"`,
		},
		"/validate": {
			`{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "x"}, "spec": {"hosts": ["a"]}}`,
			`"allowed":false`,
		},
	} {
		review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", "namespace": "shop", "object": ` + test.object + `}}`
		response, err := http.Post("http://"+l.http+path, "application/json", strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if _ = response.Body.Close(); err != nil || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %s, %v: %.300s", path, response.Status, err, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
