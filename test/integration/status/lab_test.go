package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{
	IstioKinds: true, GatewayAPI: cluster.Experimental, InferenceKinds: true,
})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const patience = 30 * time.Second

// lab is an API server with namespaces of the test's own.
type lab struct {
	*testing.T
	cluster      *cluster.Cluster
	client       *kube.Client
	system, shop string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return &lab{T: t, cluster: c, client: client, system: c.Namespace(t, "istio-system", nil), shop: c.Namespace(t, "shop", nil)}
}

// replica is a control plane in this process.
type replica struct {
	*controlplane.Plane
	l *lab
}

// replica starts a control plane and waits until it is ready.
func (l *lab) replica(name string, change func(*discovery.Options)) *replica {
	l.Helper()
	o := controlplane.Options(l)
	o.Namespace, o.PodName = l.system, name
	if l.cluster != nil {
		o.Kubernetes.Kubeconfig = l.cluster.Kubeconfig()
	}
	o.Authority.Enabled = false
	o.ShutdownDuration = time.Second
	if change != nil {
		change(&o)
	}
	return &replica{controlplane.Start(l, o), l}
}

// metric returns the sum of a metric's values.
func (r *replica) metric(name string) (sum float64) {
	r.l.Helper()
	text, err := r.GetPage("/metrics")
	if err != nil {
		r.l.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			var v float64
			if _, err := fmt.Sscanf(rest[strings.LastIndexByte(rest, ' ')+1:], "%g", &v); err == nil {
				sum += v
			}
		}
	}
	return sum
}

func (l *lab) eventually(what string, check func() error) {
	l.Helper()
	serving.Eventually(l, patience, what, check)
}

func resource(l *lab, kind string) schema.GroupVersionResource {
	l.Helper()
	k, known := api.Info(api.Kind(kind))
	if !known {
		l.Fatalf("unknown kind %q", kind)
	}
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Plural}
}

// kindOf returns the kind of an object as package api names it: Gateways of the Gateway API have their group in it.
func kindOf(u *unstructured.Unstructured) string {
	if gvk := u.GroupVersionKind(); gvk.Group == "gateway.networking.k8s.io" && gvk.Kind == "Gateway" {
		return string(api.KubernetesGateway)
	}
	return u.GetKind()
}

// apply makes or changes objects as kubectl does, in the namespace of the test if they name none.
func (l *lab) apply(manifests string) *unstructured.Unstructured {
	l.Helper()
	var last *unstructured.Unstructured
	for _, text := range strings.Split(manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			l.Fatal(err)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(l.shop)
		}
		got, err := l.client.Dynamic.Resource(resource(l, kindOf(u))).Namespace(u.GetNamespace()).Apply(l.Context(), u.GetName(), u,
			metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
		if err != nil {
			l.Fatalf("%v\n%s", err, text)
		}
		last = got
	}
	return last
}

func (l *lab) get(u *unstructured.Unstructured) *unstructured.Unstructured {
	l.Helper()
	got, err := l.client.Dynamic.Resource(resource(l, kindOf(u))).Namespace(u.GetNamespace()).Get(l.Context(), u.GetName(), metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// waitFor is `kubectl wait --for=condition=Reconciled=STATUS`: it waits until the condition has the status and is of the object's
// generation, and returns its reason and message.
func (l *lab) waitFor(u *unstructured.Unstructured, status string) string {
	l.Helper()
	said := ""
	l.eventually("wait for condition Reconciled="+status+" of "+u.GetName(), func() error {
		got := l.get(u)
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			if c["type"] != "Reconciled" {
				continue
			}
			said = fmt.Sprintf("%v: %v", c["reason"], c["message"])
			if generation, ok := c["observedGeneration"].(int64); !ok || generation < got.GetGeneration() {
				return fmt.Errorf("condition of generation %v, want %d: %v %s", c["observedGeneration"], got.GetGeneration(), c["status"], said)
			}
			if c["status"] != status {
				return fmt.Errorf("condition is %v: %s", c["status"], said)
			}
			return nil
		}
		return errors.New("no condition")
	})
	return said
}

const merge = types.MergePatchType

var patchOptions = metav1.PatchOptions{FieldManager: "another"}
