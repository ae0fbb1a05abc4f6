package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{GatewayAPI: cluster.Standard})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const (
	patience = 30 * time.Second
	// settle is how long a test waits for what must not happen.
	settle = time.Second
)

// lab is a namespace of a real API server and the Specs of its Gateways.
type lab struct {
	*testing.T
	cluster           *cluster.Cluster
	client            *kube.Client
	namespace, system string
	revision          string
	deployer          *Deployer
	mu                sync.Mutex
	specs             map[types.NamespacedName]*Spec
	writes            map[string]int // by "kind outcome"
	log               *logged
	stop              func()
}

// logged counts records by message.
type logged struct {
	mu       sync.Mutex
	messages map[string]int
}

func (h *logged) Enabled(context.Context, slog.Level) bool { return true }
func (h *logged) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *logged) WithGroup(string) slog.Handler            { return h }
func (h *logged) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[r.Message]++
	return nil
}

// count returns the number of records with a message.
func (h *logged) count(message string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.messages[message]
}

func newLab(t *testing.T, revision string) *lab {
	t.Helper()
	longtest.Test(t)
	t.Parallel()
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	l := &lab{
		T: t, cluster: c, client: client, revision: revision,
		namespace: c.Namespace(t, "shop", nil), system: c.Namespace(t, "system", nil),
		specs: map[types.NamespacedName]*Spec{}, writes: map[string]int{}, log: &logged{messages: map[string]int{}},
	}
	l.deployer = New(Options{
		Client: client, Get: l.get, List: l.list, Namespace: l.system, Revision: revision, CopyMetadata: true,
		Applied: func(kind, outcome string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.writes[kind+" "+outcome]++
		},
		Log: slog.New(l.log),
	})
	l.lead()
	t.Cleanup(func() { l.stop() })
	return l
}

// lead starts the deployer, as when a replica becomes the leader.
func (l *lab) lead() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.deployer.Run(ctx) }()
	l.stop = func() {
		cancel()
		<-ended
	}
}

func (l *lab) get(name types.NamespacedName) *Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.specs[name]
}

func (l *lab) list() []*Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.specs))
}

// awaitDeployed waits until the deployer has counted the writes of a Gateway's ServiceAccount,
// Deployment and Service. The API server has an object some time before the deployer counts it.
func (l *lab) awaitDeployed() {
	l.Helper()
	want := map[string]int{"ServiceAccount applied": 1, "Deployment applied": 1, "Service applied": 1}
	serving.Eventually(l, patience, "the Gateway is deployed", func() error {
		if got := l.writesSoFar(); !maps.Equal(got, want) {
			return fmt.Errorf("requests %v, want %v", got, want)
		}
		return nil
	})
}

// writesSoFar returns the number of writes that the deployer has made.
func (l *lab) writesSoFar() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.writes)
}

// gateway applies a Gateway as a user does and sends the deployer its Spec. changes may alter the
// Spec.
func (l *lab) gateway(manifest string, changes ...func(*Spec)) *gatewayv1.Gateway {
	l.Helper()
	u := l.apply(gatewayResource(), "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n"+manifest)
	gateway := &gatewayv1.Gateway{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, gateway); err != nil {
		l.Fatal(err)
	}
	spec := specOf(gateway)
	for _, change := range changes {
		change(spec)
	}
	l.mu.Lock()
	l.specs[spec.Gateway] = spec
	l.mu.Unlock()
	l.deployer.Notify(spec.Gateway)
	return gateway
}

// apply applies an object as kubectl does, in the test's namespace if it has none.
func (l *lab) apply(r schema.GroupVersionResource, manifest string) *unstructured.Unstructured {
	l.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		l.Fatal(err)
	}
	if u.GetNamespace() == "" && r.Resource != "gatewayclasses" && r.Resource != "mutatingwebhookconfigurations" {
		u.SetNamespace(l.namespace)
	}
	got, err := l.client.Dynamic.Resource(r).Namespace(u.GetNamespace()).Apply(
		l.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "kubectl", Force: true},
	)
	if err != nil {
		l.Fatal(err)
	}
	return got
}

func configMapResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// read returns an object of the test's namespace, or an error.
func (l *lab) read(kind, name string) (*unstructured.Unstructured, error) {
	return l.client.Dynamic.Resource(resource(kind)).Namespace(l.namespace).Get(l.Context(), name, metav1.GetOptions{})
}

// await waits until an object exists and check accepts it.
func (l *lab) await(kind, name string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	l.Helper()
	var got *unstructured.Unstructured
	serving.Eventually(l, patience, kind+" "+name, func() (err error) {
		if got, err = l.read(kind, name); err == nil && check != nil {
			err = check(got)
		}
		return err
	})
	return got
}

// expect returns a check that a field has a value.
func expect(want any, fields ...string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		got, _, err := unstructured.NestedFieldNoCopy(u.Object, fields...)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%v is %v, want %v", fields, got, want)
		}
		return nil
	}
}

// unchanged runs do and fails if the deployer writes an object, or an object's version changes, within a while.
func (l *lab) unchanged(what string, do func()) {
	l.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		for _, kind := range overlayKinds() {
			list, err := l.client.Dynamic.Resource(resource(kind.kind)).Namespace(l.namespace).List(l.Context(), metav1.ListOptions{})
			if err != nil {
				l.Fatal(err)
			}
			for _, o := range list.Items {
				all[kind.kind+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
		return all
	}
	before := versions()
	do()
	time.Sleep(settle)
	if after := versions(); !maps.Equal(before, after) {
		l.Errorf("%s: objects are %v, were %v", what, after, before)
	}
}
