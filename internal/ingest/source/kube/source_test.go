package kube

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{
		"sidecar.istio.io/inject": "true", "example.com/big": strings.Repeat("x", 10000),
	}}, Spec: corev1.PodSpec{ServiceAccountName: "sa", Containers: []corev1.Container{{
		Name: "app", Image: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
	}}}}
}

// custom makes an object of a custom kind.
func custom(kind api.Kind, name string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	info, _ := api.Info(kind)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(info.Group + "/" + info.Versions[0])
	o.SetKind(kind.Name())
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

func destinationRule(name, host string) *unstructured.Unstructured {
	return custom(api.DestinationRule, name, nil, map[string]any{"host": host})
}

// TestObjectsComeAndGo follows objects of all sorts from their making to their end.
func TestObjectsComeAndGo(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "come", nil)
	client := c.Client(t)
	ctx := t.Context()
	if _, err := client.CoreV1().Services(ns).Create(ctx, service("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rules := objectsOf(t, c.Config(), api.DestinationRule, ns)
	if _, err := rules.Create(ctx, destinationRule("first", "first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	r := read(t, Options{Client: newClient(t, c.Config()), Kinds: append(ServiceKinds(), ConfigKinds()...), Namespaces: []string{ns}})
	r.awaitSynced()
	if r.batches != 1 {
		t.Errorf("the initial objects arrived in %d batches", r.batches)
	}
	if r.get(api.Service, ns, "first") == nil || r.get(api.DestinationRule, ns, "first") == nil || r.get(api.Namespace, "", ns) == nil {
		t.Fatalf("read %v", r.drainEvents())
	}
	r.drainEvents()

	if _, err := client.CoreV1().Pods(ns).Create(ctx, pod("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("a pod", func() bool { return r.get(api.Pod, ns, "a") != nil })
	status := []byte(`{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"}]}}`)
	if _, err := client.CoreV1().Pods(ns).Patch(ctx, "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	podOf := func() *corev1.Pod { return config.Spec[*corev1.Pod](r.get(api.Pod, ns, "a")) }
	r.await("its address", func() bool { return podOf().Status.PodIP == "10.0.0.1" })
	p := podOf()
	if len(p.Status.Conditions) != 1 || len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Ports[0].ContainerPort != 8080 || p.UID == "" || p.Spec.ServiceAccountName != "sa" {
		t.Errorf("of the pod is left %+v", p)
	}
	if p.Annotations != nil || p.ManagedFields != nil || p.Spec.Containers[0].Env != nil || p.ResourceVersion != "" {
		t.Errorf("the pod was not trimmed: %+v", p)
	}

	r.drainEvents()
	if err := client.CoreV1().Pods(ns).Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	r.await("the end of the pod", func() bool { return r.get(api.Pod, ns, "a") == nil })
	if err := rules.Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the end of the rule", func() bool { return r.get(api.DestinationRule, ns, "first") == nil })
	// it terminates first
	events := slices.DeleteFunc(r.drainEvents(), func(e string) bool { return e == "upsert Pod/"+ns+"/a" })
	// Namespaces are those of all tests.
	events = slices.DeleteFunc(events, func(e string) bool { return strings.Contains(e, " Namespace/") })
	if diff := cmp.Diff([]string{"delete Pod/" + ns + "/a", "delete DestinationRule/" + ns + "/first"}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestIrrelevantChangesEmitNoEvent shows that heartbeats, managed fields and the status of objects
// cost nothing.
func TestIrrelevantChangesEmitNoEvent(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "nothing", nil)
	client := c.Client(t)
	ctx := t.Context()
	for _, name := range []string{"a", "last"} {
		if _, err := client.CoreV1().Pods(ns).Create(ctx, pod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := read(t, Options{Client: newClient(t, c.Config()), Kinds: []api.Kind{api.Pod}, Namespaces: []string{ns}})
	r.awaitSynced()
	r.drainEvents()
	for _, change := range []struct{ patch, sub string }{
		{`{"metadata":{"annotations":{"example.com/heartbeat":"1"}}}`, ""},
		{`{"status":{"conditions":[{"type":"PodScheduled","status":"True"}]}}`, "status"},
		{`{"status":{"message":"pulling"}}`, "status"},
		{`{"metadata":{"finalizers":["example.com/x"]}}`, ""},
		{`{"metadata":{"finalizers":null}}`, ""},
	} {
		var sub []string
		if change.sub != "" {
			sub = []string{change.sub}
		}
		if _, err := client.CoreV1().Pods(ns).Patch(ctx, "a", types.MergePatchType, []byte(change.patch), metav1.PatchOptions{}, sub...); err != nil {
			t.Fatal(err)
		}
	}
	// Events of one kind arrive in order: when this one has arrived, so have all before it.
	if _, err := client.CoreV1().Pods(ns).Patch(ctx, "last", types.MergePatchType, []byte(`{"metadata":{"labels":{"version":"v2"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the last change", func() bool { return r.get(api.Pod, ns, "last").Labels["version"] == "v2" })
	if diff := cmp.Diff([]string{"upsert Pod/" + ns + "/last"}, r.drainEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestWrongObjects checks that an invalid object is named in a Problem and skipped, that the last
// good version of an object is kept, and that other objects are processed.
func TestWrongObjects(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "wrong", nil)
	ctx := t.Context()
	rules := objectsOf(t, c.Config(), api.VirtualService, ns)
	route := func(host string, percent int64) map[string]any {
		return map[string]any{"hosts": []any{host}, "http": []any{map[string]any{
			"fault": map[string]any{"abort": map[string]any{"httpStatus": int64(500), "percentage": map[string]any{"value": percent}}},
			"route": []any{map[string]any{"destination": map[string]any{"host": host}}},
		}}}
	}
	bad := route("bad", 200)
	for name, spec := range map[string]map[string]any{"good": route("good", 1), "bad": bad, "turns": route("turns", 1)} {
		if _, err := rules.Create(ctx, custom(api.VirtualService, name, nil, spec), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := read(t, Options{Client: newClient(t, c.Config()), Kinds: ConfigKinds(), Namespaces: []string{ns}})
	r.awaitSynced()
	if r.get(api.VirtualService, ns, "good") == nil || r.get(api.VirtualService, ns, "bad") != nil {
		t.Errorf("read %v", r.drainEvents())
	}
	r.mu.Lock()
	if !r.has("VirtualService/"+ns+"/bad", "spec.http[0].fault.abort.percentage") {
		t.Errorf("problems: %v", r.problems)
	}
	r.mu.Unlock()

	patch := func(name, spec string) {
		t.Helper()
		if _, err := rules.Patch(ctx, name, types.MergePatchType, []byte(spec), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := r.get(api.VirtualService, ns, "turns")
	patch("turns", `{"spec":{"http":[{"fault":{"abort":{"httpStatus":500,"percentage":{"value":300}}},"route":[{"destination":{"host":"turns"}}]}]}}`)
	r.await("the problem", func() bool { return r.has("VirtualService/"+ns+"/turns", "it stays in use as it was before") })
	if now := r.get(api.VirtualService, ns, "turns"); now != before {
		t.Errorf("the last good version did not stay: %v", now)
	}
	patch("turns", `{"spec":{"hosts":["turned"],"http":[{"route":[{"destination":{"host":"turns"}}]}]}}`)
	r.await("the fixed version", func() bool {
		return config.Spec[*networking.VirtualService](r.get(api.VirtualService, ns, "turns")).Hosts[0] == "turned" && !r.has("VirtualService/"+ns+"/turns")
	})
	patch("bad", `{"spec":{"http":[{"route":[{"destination":{"host":"bad"}}]}]}}`)
	r.await("the other fixed version", func() bool { return r.get(api.VirtualService, ns, "bad") != nil && !r.has("VirtualService/"+ns+"/bad") })
}

// TestRevisions shows whose objects are read: those without the label are everybody's.
func TestRevisions(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "revision", nil)
	ctx := t.Context()
	rules := objectsOf(t, c.Config(), api.DestinationRule, ns)
	for _, revision := range []string{"", "canary", "stable"} {
		var labels map[string]string
		if revision != "" {
			labels = map[string]string{"istio.io/rev": revision}
		}
		if _, err := rules.Create(ctx, custom(api.DestinationRule, "of-"+revision+"x", labels, map[string]any{"host": "a"}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	every := read(t, Options{Client: newClient(t, c.Config()), Kinds: []api.Kind{api.DestinationRule}, Namespaces: []string{ns}})
	canary := read(t, Options{Client: newClient(t, c.Config()), Kinds: []api.Kind{api.DestinationRule}, Namespaces: []string{ns}, Revision: "canary"})
	every.awaitSynced()
	canary.awaitSynced()
	if n := len(every.objects); n != 3 {
		t.Errorf("a control plane without revision reads %d objects of 3", n)
	}
	if diff := cmp.Diff([]string{"upsert DestinationRule/" + ns + "/of-canaryx", "upsert DestinationRule/" + ns + "/of-x"}, canary.drainEvents()); diff != "" {
		t.Errorf("canary reads (-want +got):\n%s", diff)
	}
	for _, change := range []struct{ name, patch, want string }{
		{"of-canaryx", `{"metadata":{"labels":{"istio.io/rev":"stable"}}}`, "delete DestinationRule/" + ns + "/of-canaryx"},
		{"of-stablex", `{"metadata":{"labels":{"istio.io/rev":null}}}`, "upsert DestinationRule/" + ns + "/of-stablex"},
	} {
		if _, err := rules.Patch(ctx, change.name, types.MergePatchType, []byte(change.patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		canary.await(change.want, func() bool { return len(canary.events) > 0 })
		if diff := cmp.Diff([]string{change.want}, canary.drainEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
}
