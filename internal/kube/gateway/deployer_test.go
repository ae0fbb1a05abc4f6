package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

const webGateway = `
metadata: {name: web}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// TestDeploy: the objects exist, are as the API server accepts them, and are owned by the Gateway.
func TestDeploy(t *testing.T) {
	l := newLab(t, "")
	gateway := l.gateway(webGateway)
	for _, kind := range []string{"ServiceAccount", "Deployment", "Service"} {
		o := l.await(kind, "web-istio", nil)
		owners := o.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != gateway.UID || owners[0].Kind != "Gateway" {
			t.Errorf("%s has owners %v", kind, owners)
		}
		for _, f := range o.GetManagedFields() {
			if f.Manager != FieldManager || f.Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("%s has fields of %s (%s)", kind, f.Manager, f.Operation)
			}
		}
	}
	service, err := l.client.Kubernetes.CoreV1().Services(l.namespace).Get(t.Context(), "web-istio", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p := service.Spec.Ports; len(p) != 2 || p[1].Port != 80 || p[1].TargetPort.IntValue() != 80 || service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("the Service is %+v", service.Spec)
	}

	t.Log("A listener is added, and another is removed.")
	l.gateway(`
metadata: {name: web}
spec: {gatewayClassName: istio, listeners: [{name: https, port: 443, protocol: HTTP}, {name: dns, port: 80, protocol: HTTP, hostname: a.example.com}]}
`)
	l.await("Service", "web-istio", func(u *unstructured.Unstructured) error {
		ports, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports")
		if len(ports) != 3 {
			return fmt.Errorf("ports %v", ports)
		}
		return nil
	})
}

// TestNothingIsWritten: nothing is written if nothing has changed, whether the deployer is notified, or another
// replica begins to lead.
func TestNothingIsWritten(t *testing.T) {
	l := newLab(t, "")
	l.gateway(webGateway)
	l.awaitDeployed()
	before := l.writesSoFar()
	l.unchanged("after a notification", func() { l.deployer.Notify(types.NamespacedName{Namespace: l.namespace, Name: "web"}) })
	if after := l.writesSoFar(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("requests %v, were %v", after, before)
	}
	l.unchanged("after a change of status", func() {
		body := `{"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]}}`
		if _, err := l.client.Dynamic.Resource(gatewayResource()).Namespace(l.namespace).Patch(t.Context(), "web", types.MergePatchType,
			[]byte(body), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	})
	if after := l.writesSoFar(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("requests %v, were %v", after, before)
	}
	l.unchanged("after a change of leader", func() {
		l.stop()
		l.lead()
	})
}

// TestFieldsOfOthers: fields that others add stay, fields that they take over and objects that they delete are restored.
func TestFieldsOfOthers(t *testing.T) {
	l := newLab(t, "")
	l.gateway(webGateway)
	l.awaitDeployed()
	deployments := l.client.Dynamic.Resource(resource("Deployment")).Namespace(l.namespace)
	patch := func(body string) {
		t.Helper()
		if _, err := deployments.Patch(t.Context(), "web-istio", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec": {"replicas": 3}}`)
	before := l.writesSoFar()
	l.unchanged("after a field of another manager", func() {})
	if after := l.writesSoFar(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("requests %v, were %v", after, before)
	}
	patch(`{"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}`)
	l.await("Deployment", "web-istio", expect("web-istio", "spec", "template", "spec", "serviceAccountName"))
	l.await("Deployment", "web-istio", expect(3, "spec", "replicas"))

	old := l.await("Service", "web-istio", nil).GetUID()
	if err := l.client.Kubernetes.CoreV1().Services(l.namespace).Delete(t.Context(), "web-istio", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("Service", "web-istio", func(u *unstructured.Unstructured) error {
		if u.GetUID() == old {
			return errors.New("it is not deleted yet")
		}
		return nil
	})
}

// TestUnmanagedObjects: an object of the same name that no gateway controller has created is left alone.
func TestUnmanagedObjects(t *testing.T) {
	l := newLab(t, "")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web-istio"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1234}}},
	}
	made, err := l.client.Kubernetes.CoreV1().Services(l.namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.gateway(webGateway)
	l.await("Deployment", "web-istio", nil)
	l.await("ServiceAccount", "web-istio", nil)
	serving.Eventually(t, patience, "a log entry", func() error {
		l.log.mu.Lock()
		defer l.log.mu.Unlock()
		if l.log.messages["an object exists without the label "+managedLabel+", so it is left as it is"] != 1 {
			return fmt.Errorf("messages %v", l.log.messages)
		}
		return nil
	})
	now, err := l.client.Kubernetes.CoreV1().Services(l.namespace).Get(t.Context(), "web-istio", metav1.GetOptions{})
	if err != nil || now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the Service is %v, %v", now, err)
	}
}

// TestSelectorOfEarlierDeployment: the selector of a Deployment that Istio before 1.24 created is kept, as it is immutable.
func TestSelectorOfEarlierDeployment(t *testing.T) {
	l := newLab(t, "")
	l.apply(resource("Deployment"), `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-istio, labels: {gateway.istio.io/managed: istio.io-gateway-controller}}
spec:
  selector: {matchLabels: {istio.io/gateway-name: web}}
  template:
    metadata: {labels: {istio.io/gateway-name: web}}
    spec: {containers: [{name: istio-proxy, image: old}]}
`)
	l.gateway(webGateway)
	l.await("Service", "web-istio", nil)
	d := l.await("Deployment", "web-istio", func(u *unstructured.Unstructured) error {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 || containers[0].(map[string]any)["image"] != "auto" {
			return fmt.Errorf("containers %v", containers)
		}
		return nil
	})
	if err := expect(map[string]any{oldNameLabel: "web"}, "spec", "selector", "matchLabels")(d); err != nil {
		t.Error(err)
	}
	t.Log("Also when the manifest changes later.")
	l.gateway(webGateway, func(s *Spec) { s.Class = "other" })
	l.await("Deployment", "web-istio", expect("other", "metadata", "labels", classLabel))
}

// TestOverlays: ConfigMaps of the class and of the Gateway are applied and followed. What no overlay requests any
// more is deleted. A missing or invalid ConfigMap, or a reference to anything else, changes nothing.
func TestOverlays(t *testing.T) {
	l := newLab(t, "")
	const reference = `
metadata: {name: web}
spec:
  gatewayClassName: istio
  infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: parameters}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`
	l.gateway(reference, func(s *Spec) { s.Class = l.namespace })
	const failure = "deploying the gateway failed, retrying"
	serving.Eventually(t, patience, "a failure", func() error {
		if n := l.log.count(failure); n != 1 {
			return fmt.Errorf("%d failures", n)
		}
		return nil
	})
	if _, err := l.read("Deployment", "web-istio"); !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment without its parameters: %v", err)
	}

	l.apply(configMapResource(), `
apiVersion: v1
kind: ConfigMap
metadata: {name: parameters}
data:
  deployment: "spec: {replicas: 2}"
  horizontalPodAutoscaler: "spec: {minReplicas: 2, maxReplicas: 4}"
  podDisruptionBudget: "spec: {minAvailable: 1}"
`)
	l.await("Deployment", "web-istio", expect(2, "spec", "replicas"))
	l.await("HorizontalPodAutoscaler", "web-istio", expect(4, "spec", "maxReplicas"))
	l.await("PodDisruptionBudget", "web-istio", expect(1, "spec", "minAvailable"))

	t.Log("Defaults of the class are below those of the Gateway.")
	l.apply(configMapResource(), fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: defaults, namespace: %s, labels: {gateway.istio.io/defaults-for-class: %s}}
data: {deployment: "spec: {replicas: 9, minReadySeconds: 7}"}
`, l.system, l.namespace))
	l.await("Deployment", "web-istio", expect(7, "spec", "minReadySeconds"))
	l.await("Deployment", "web-istio", expect(2, "spec", "replicas"))

	t.Log("Parameters of the class are above its defaults and below those of the Gateway.")
	l.apply(configMapResource(), fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: class, namespace: %s}
data: {deployment: "spec: {replicas: 8, minReadySeconds: 6}"}
`, l.system))
	l.gateway(reference, func(s *Spec) {
		s.Class, s.ClassParameters = l.namespace, &types.NamespacedName{Namespace: l.system, Name: "class"}
	})
	l.await("Deployment", "web-istio", expect(6, "spec", "minReadySeconds"))
	l.await("Deployment", "web-istio", expect(2, "spec", "replicas"))

	t.Log("An overlay is removed.")
	l.apply(configMapResource(), `
apiVersion: v1
kind: ConfigMap
metadata: {name: parameters}
data: {deployment: "spec: {replicas: 5}"}
`)
	l.await("Deployment", "web-istio", expect(5, "spec", "replicas"))
	for _, kind := range []string{"HorizontalPodAutoscaler", "PodDisruptionBudget"} {
		serving.Eventually(t, patience, "no "+kind, func() error {
			if _, err := l.read(kind, "web-istio"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it exists (%w)", err)
			}
			return nil
		})
	}
	t.Log("Parameters of another group or kind are refused, although a ConfigMap has their name.")
	for name, kind := range map[string]string{"group": "group: example.com, kind: ConfigMap", "kind": `group: "", kind: Secret`} {
		failures := l.log.count(failure)
		other := strings.Replace(reference, `group: "", kind: ConfigMap`, kind, 1)
		l.gateway(strings.Replace(other, "name: web", "name: "+name, 1))
		serving.Eventually(t, patience, "a failure for another "+name, func() error {
			if l.log.count(failure) == failures {
				return errors.New("no failure")
			}
			return nil
		})
		if _, err := l.read("Deployment", name+"-istio"); !apierrors.IsNotFound(err) {
			t.Errorf("a Deployment with parameters of another %s: %v", name, err)
		}
	}

	t.Log("An invalid overlay changes nothing.")
	l.unchanged("after an invalid overlay", func() {
		l.apply(configMapResource(), "{apiVersion: v1, kind: ConfigMap, metadata: {name: parameters}, data: {deployments: x}}")
	})
}

// TestRevisions: a control plane deploys the Gateways that select its revision or a tag of it.
func TestRevisions(t *testing.T) {
	l := newLab(t, "canary")
	l.apply(webhookConfigurationResource(), fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: tag-%s, labels: {istio.io/tag: %s, istio.io/rev: canary}}
`, l.namespace, l.namespace))
	const named = `
metadata: {name: %s, labels: {istio.io/rev: %s}}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	l.gateway(webGateway)
	l.gateway(fmt.Sprintf(named, "other", "stable"))
	l.gateway(fmt.Sprintf(named, "own", "canary"))
	l.gateway(fmt.Sprintf(named, "tagged", l.namespace))
	l.await("Service", "own-istio", nil)
	d := l.await("Deployment", "tagged-istio", nil)
	if err := expect("canary", "spec", "template", "metadata", "labels", "istio.io/rev")(d); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"web-istio", "other-istio"} {
		if _, err := l.read("Deployment", name); !apierrors.IsNotFound(err) {
			t.Errorf("Deployment %s: %v", name, err)
		}
	}
	t.Log("The namespace selects the revision.")
	body := `{"metadata": {"labels": {"istio.io/rev": "canary"}}}`
	if _, err := l.client.Kubernetes.CoreV1().Namespaces().Patch(t.Context(), l.namespace, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("Deployment", "web-istio", nil)
}

// TestControllerVersion: a Gateway that a newer controller deploys is left to it.
func TestControllerVersion(t *testing.T) {
	l := newLab(t, "")
	const annotated = `
metadata: {name: %s, annotations: {gateway.istio.io/controller-version: "%s"}}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	l.gateway(fmt.Sprintf(annotated, "newer", "6"))
	l.gateway(fmt.Sprintf(annotated, "unknown", "x"))
	l.gateway(fmt.Sprintf(annotated, "older", "1"))
	l.gateway(fmt.Sprintf(annotated, "equal", "5"))
	l.await("Service", "older-istio", nil)
	l.await("Service", "equal-istio", nil)
	for _, name := range []string{"newer-istio", "unknown-istio"} {
		if _, err := l.read("Deployment", name); !apierrors.IsNotFound(err) {
			t.Errorf("Deployment %s: %v", name, err)
		}
	}
	body := `{"metadata": {"annotations": {"gateway.istio.io/controller-version": null}}}`
	if _, err := l.client.Dynamic.Resource(gatewayResource()).Namespace(l.namespace).
		Patch(t.Context(), "newer", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("Deployment", "newer-istio", nil)
}

// TestDeletedGateway: nothing is created for a Gateway that does not exist in the API server.
func TestDeletedGateway(t *testing.T) {
	l := newLab(t, "")
	name := types.NamespacedName{Namespace: l.namespace, Name: "gone"}
	l.mu.Lock()
	l.specs[name] = &Spec{Gateway: name, Class: "istio", ObjectName: "gone-istio"}
	l.mu.Unlock()
	l.deployer.Notify(name)
	l.gateway(webGateway)
	l.await("Service", "web-istio", nil)
	if _, err := l.read("Service", "gone-istio"); !apierrors.IsNotFound(err) {
		t.Errorf("a Service of no Gateway: %v", err)
	}
}
