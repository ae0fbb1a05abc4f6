package autoregister

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// lab is a store, a namespace in it, and a WorkloadGroup "vms".
type lab struct {
	*testing.T
	store     Store
	dynamic   dynamic.Interface // nil for memory
	namespace string
	group     *config.Config
}

// inStores runs a test with each kind of Store; in everyday runs without the one that needs an API server.
func inStores(t *testing.T, test func(*lab)) {
	t.Parallel()
	inMemory(t, test)
	t.Run("cluster", func(t *testing.T) {
		longtest.Test(t)
		t.Parallel()
		test(newClusterLab(t))
	})
}

func inMemory(t *testing.T, test func(*lab)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l := &lab{T: t, store: NewMemoryStore(), namespace: "vms"}
		l.group = l.newGroup()
		test(l)
	})
}

func newClusterLab(t *testing.T) *lab {
	t.Helper()
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	l := &lab{
		T:         t,
		store:     NewKubernetesStore(client.Dynamic, client.Metadata, served.New(client.Kubernetes, nil)),
		dynamic:   client.Dynamic,
		namespace: c.Namespace(t, "vms", nil),
	}
	l.group = l.newGroup()
	spec, err := json.Marshal(config.Spec[*networking.WorkloadGroup](l.group))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(
		[]byte(
			fmt.Sprintf(
				`{"apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup", "metadata": {"name": "vms"}, "spec": %s}`,
				spec),
		),
		&u.Object,
	); err != nil {
		t.Fatal(err)
	}
	groups := client.Dynamic.Resource(resourceOf(api.WorkloadGroup)).Namespace(l.namespace)
	if _, err := groups.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) newGroup() *config.Config {
	l.Helper()
	c, err := config.New(
		config.Meta{Key: config.Key{Kind: api.WorkloadGroup, Namespace: l.namespace, Name: "vms"}},
		&networking.WorkloadGroup{
			Metadata: &networking.WorkloadGroup_ObjectMeta{
				Labels:      map[string]string{"app": "vm", "team": "data"},
				Annotations: map[string]string{"note": "x"},
			},
			Template: &networking.WorkloadEntry{
				Ports: map[string]uint32{
					"http": 8080,
				},
				ServiceAccount: "vm",
				Network:        "template",
				Locality:       "us/us-1",
				Weight:         3,
				Labels:         map[string]string{"team": "template", "tier": "t"},
			},
		},
	)
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// replica is one control plane.
type replica struct {
	*Registrar
	l    *lab
	stop func()

	mu     sync.Mutex
	groups map[string]*config.Config
	skew   time.Duration
}

// skewedClock is the clock of a replica, which differs from the system's by its skew.
type skewedClock struct {
	clock.System
	of *replica
}

// Now returns the time with the skew.
func (c skewedClock) Now() time.Time {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.System.Now().Add(c.of.skew)
}

const grace = 300 * time.Millisecond

// replica starts a Registrar, which ends with the test.
func (l *lab) replica(name string) *replica {
	x := l.newReplica(name)
	x.start()
	return x
}

func (l *lab) newReplica(name string) *replica {
	x := &replica{l: l, groups: map[string]*config.Config{"vms": l.group}}
	x.Registrar = New(Options{
		Settings: Settings{Register: true, HealthChecks: true, Grace: grace}, Store: l.store, Instance: name,
		Group: func(namespace, name string) *config.Config {
			x.mu.Lock()
			defer x.mu.Unlock()
			if namespace != l.namespace {
				return nil
			}
			return x.groups[name]
		},
		Entries: l.entries,
		Clock:   skewedClock{of: x},
	})
	return x
}

func (x *replica) start() {
	l := x.l
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); x.Run(ctx) }()
	var once sync.Once
	x.stop = func() { once.Do(func() { cancel(); <-done }) }
	l.Cleanup(x.stop)
	l.eventually(
		func() bool { x.Registrar.mu.Lock(); defer x.Registrar.mu.Unlock(); return x.ctx != nil },
		"the replica does not start",
	)
}

// entries returns all entries as config, as a control plane has them.
func (l *lab) entries() []*config.Config {
	var out []*config.Config
	add := func(e *Entry) {
		c, err := config.New(config.Meta{
			Key: config.Key{Kind: api.WorkloadEntry, Namespace: e.Namespace, Name: e.Name}, Annotations: e.Annotations,
		}, e.Spec)
		if err != nil {
			l.Error(err)
		}
		out = append(out, c)
	}
	store := l.store
	if x, ok := store.(*away); ok {
		store = x.Store
	}
	if m, ok := store.(*MemoryStore); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, e := range m.entries {
			add(&e.clone().Entry)
		}
		return out
	}
	entries := l.dynamic.Resource(resourceOf(api.WorkloadEntry)).Namespace(l.namespace)
	list, err := entries.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		l.Error(err)
		return nil
	}
	for i := range list.Items {
		if e, err := entryFrom(&list.Items[i]); err == nil {
			add(e)
		}
	}
	return out
}

func (l *lab) get(name string) *Entry {
	l.Helper()
	e, err := l.store.Get(context.Background(), l.namespace, name)
	if err != nil {
		l.Fatal(err)
	}
	return e
}

func (l *lab) eventually(ok func() bool, otherwise string) {
	l.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			l.Fatal(otherwise)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// vm is a proxy that registers, authenticated as it should be.
func (l *lab) vm() *mesh.Proxy {
	return &mesh.Proxy{
		ID:        "sidecar~10.0.0.7~vm-7." + l.namespace + "~x",
		Type:      mesh.SidecarProxy,
		Namespace: l.namespace,
		Name:      "vm-7",
		Addresses: []netip.Addr{
			netip.MustParseAddr("10.0.0.7"),
		},
		Network:  "dc1",
		Locality: mesh.Locality{Region: "eu", Zone: "eu-1"},
		Account:  mesh.Account{Namespace: l.namespace, Name: "vm"},
		Metadata: mesh.NodeMetadata{
			AutoRegisterGroup: "vms",
			Labels:            map[string]string{"team": "own", "istio-locality": "eu.eu-1"},
		},
	}
}

const vmName = "vms-10.0.0.7-dc1"

// connects connects a proxy, which must not be refused, and waits for the first attempt to register it.
func (x *replica) connects(p *mesh.Proxy) *Connection {
	x.l.Helper()
	c, err := x.Connect(x.l.Context(), p)
	if err != nil || c == nil {
		x.l.Fatalf("connected %v, error %v", c, err)
	}
	select {
	case <-c.registered: // Connect waits only for connectTimeout
	case <-time.After(20 * time.Second):
		x.l.Fatal("the first attempt to register takes too long")
	}
	return c
}

// behind sets the clock of a replica back.
func (x *replica) behind(by time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.skew = -by
}

// resourceOf returns the resource of a kind in its newest version.
func resourceOf(kind api.Kind) schema.GroupVersionResource {
	k, _ := api.Info(kind)
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Plural}
}
