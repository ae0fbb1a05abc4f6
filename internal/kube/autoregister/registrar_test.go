package autoregister

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestEntryIsMadeFromTheGroup(t *testing.T) {
	test := func(l *lab) {
		x := l.replica("a")
		x.connects(l.vm())
		e := l.get(vmName)
		if e == nil {
			l.Fatal("no entry exists")
		}
		labels := map[string]string{"app": "vm", "team": "own", "tier": "t"}
		want := &networking.WorkloadEntry{
			Address:        "10.0.0.7",
			Ports:          map[string]uint32{"http": 8080},
			ServiceAccount: "vm",
			Network:        "dc1",
			Weight:         3,
			Locality:       "eu/eu-1",
			Labels:         labels,
		}
		if d := cmp.Diff(want, e.Spec, protocmp.Transform()); d != "" {
			l.Errorf("spec (-want +got):\n%s", d)
		}
		if d := cmp.Diff(labels, e.Labels); d != "" {
			l.Errorf("labels (-want +got):\n%s", d)
		}
		if got := slices.Sorted(maps.Keys(e.Annotations)); !slices.Equal(
			got,
			[]string{"istio.io/autoRegistrationGroup", "istio.io/connectedAt", "istio.io/workloadController", "note"},
		) {
			l.Errorf("annotations %v", e.Annotations)
		}
		if e.Annotations["istio.io/autoRegistrationGroup"] != "vms" ||
			e.Annotations["istio.io/workloadController"] != "a" ||
			e.annotationTime(connectedAnnotation).IsZero() {
			l.Errorf("annotations %v", e.Annotations)
		}
		if l.dynamic != nil {
			entries := l.dynamic.Resource(resourceOf(api.WorkloadEntry)).Namespace(l.namespace)
			u, err := entries.Get(l.Context(), vmName, metav1.GetOptions{})
			if err != nil || len(u.GetOwnerReferences()) != 1 || u.GetOwnerReferences()[0].UID == "" ||
				u.GetOwnerReferences()[0].Name != "vms" {
				l.Errorf("error %v, owners %v", err, u.GetOwnerReferences())
			}
		}
	}
	inStores(t, test)
}

// TestEntryFollowsTheGroup: the entries of two groups differ in what the groups differ in.
func TestEntryFollowsTheGroup(t *testing.T) {
	inMemory(t, func(l *lab) {
		x := l.replica("a")
		for _, v := range []string{"one", "two"} {
			port := uint32(8000 + len(x.groups))
			group, err := config.New(
				config.Meta{Key: config.Key{Kind: api.WorkloadGroup, Namespace: l.namespace, Name: v}},
				&networking.WorkloadGroup{
					Metadata: &networking.WorkloadGroup_ObjectMeta{
						Labels:      map[string]string{"app": v},
						Annotations: map[string]string{"note": v},
					},
					Template: &networking.WorkloadEntry{
						Ports:          map[string]uint32{"http": port},
						Labels:         map[string]string{"tier": v},
						ServiceAccount: v,
					},
				},
			)
			if err != nil {
				l.Fatal(err)
			}
			x.mu.Lock()
			x.groups[v] = group
			x.mu.Unlock()
			p := l.vm()
			p.Network, p.Account.Name, p.Metadata.AutoRegisterGroup = "", v, v
			x.connects(p)
			e := l.get(v + "-10.0.0.7")
			if e == nil {
				l.Fatal("no entry exists")
			}
			if e.Spec.Ports["http"] != port || e.Spec.ServiceAccount != v || e.Spec.Labels["tier"] != v ||
				e.Labels["app"] != v || e.Annotations["note"] != v {
				l.Errorf("the entry of group %s is %+v", v, e)
			}
		}
	})
}

func TestTemplateFillsMissingMetadata(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		p := l.vm()
		p.Network, p.Locality = "", mesh.Locality{}
		x.connects(p)
		e := l.get("vms-10.0.0.7")
		if e == nil || e.Spec.Network != "template" || e.Spec.Locality != "us/us-1" || e.Spec.Weight != 3 {
			l.Errorf("the entry is %+v", e)
		}
	})
}

// TestConnectionBeforeRunIsRegistered connects a workload before Run: the port of xDS may be open
// before the goroutine of Run.
func TestConnectionBeforeRunIsRegistered(t *testing.T) {
	inMemory(t, func(l *lab) {
		x := l.newReplica("a")
		connected := make(chan *Connection, 1)
		go func() {
			c, err := x.Connect(l.Context(), l.vm())
			if err != nil {
				l.Errorf("connect: %v", err)
			}
			connected <- c
		}()
		l.eventually(
			func() bool { x.Registrar.mu.Lock(); defer x.Registrar.mu.Unlock(); return len(x.workloads) == 1 },
			"the workload is not added",
		)
		x.start()
		if c := <-connected; c == nil {
			l.Fatal("the connection is not handled")
		}
		l.eventually(func() bool { return l.get(vmName) != nil }, "the workload is not registered")
	})
}

func TestEntryStaysForTheGracePeriod(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		first := x.connects(l.vm())
		second := x.connects(l.vm()) // a hot restart
		first.Close()
		time.Sleep(2 * grace) // that nothing happens takes time
		if e := l.get(vmName); e == nil || e.Annotations[disconnectedAnnotation] != "" {
			l.Fatalf("after one of two streams ended, entry = %+v", e)
		}
		left := time.Now()
		second.Close()
		l.eventually(
			func() bool { e := l.get(vmName); return e == nil || e.Annotations[disconnectedAnnotation] != "" },
			"the disconnect is not recorded",
		)
		if e := l.get(vmName); e == nil || e.Annotations[connectedAnnotation] != "" {
			l.Errorf("the entry is %+v before the grace period is over", e)
		}
		l.eventually(func() bool { return l.get(vmName) == nil }, "the entry stays")
		if stayed := time.Since(left); stayed < grace {
			l.Errorf("it stayed for %v, want %v", stayed, grace)
		}
		l.eventually(
			func() bool { x.Registrar.mu.Lock(); defer x.Registrar.mu.Unlock(); return len(x.workloads) == 0 },
			"the workload is remembered",
		)
	})
}

func TestReconnectKeepsTheEntry(t *testing.T) {
	inStores(t, func(l *lab) {
		a, b := l.replica("a"), l.replica("b")
		b.behind(time.Hour)
		c := a.connects(l.vm())
		uid := l.created()
		c.Close()
		l.eventually(
			func() bool { return l.get(vmName).Annotations[disconnectedAnnotation] != "" },
			"the disconnect is not recorded",
		)
		moved := b.connects(l.vm())
		l.eventually(
			func() bool { return l.get(vmName).Annotations[controllerAnnotation] == "b" },
			"the other replica does not take it over",
		)
		time.Sleep(3 * grace) // time in which the entry must not be deleted
		e := l.get(vmName)
		if e == nil || e.Annotations[disconnectedAnnotation] != "" || e.Annotations[controllerAnnotation] != "b" ||
			l.created() != uid {
			l.Fatalf("the entry is %+v", e)
		}

		// It reconnects before the other replica notices that it has disconnected.
		a.connects(l.vm())
		l.eventually(
			func() bool { return l.get(vmName).Annotations[controllerAnnotation] == "a" },
			"the entry is not adopted again",
		)
		moved.Close()
		time.Sleep(3 * grace)
		if e := l.get(vmName); e == nil || e.Annotations[disconnectedAnnotation] != "" ||
			e.Annotations[controllerAnnotation] != "a" {
			l.Fatalf("the entry is %+v", e)
		}
	})
}

// created identifies an entry among others of the same name.
func (l *lab) created() string {
	if l.dynamic == nil {
		return ""
	}
	entries := l.dynamic.Resource(resourceOf(api.WorkloadEntry)).Namespace(l.namespace)
	u, err := entries.Get(l.Context(), vmName, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return string(u.GetUID())
}

func TestRegistrationIsDenied(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		for _, tt := range []struct {
			name   string
			change func(*mesh.Proxy)
			want   string
			denied bool
		}{
			{"nobody", func(p *mesh.Proxy) { p.Account = mesh.Account{} }, "not authenticated", true},
			{"of another namespace", func(p *mesh.Proxy) { p.Account.Namespace = "other" }, `namespace "other"`, true},
			{"of another account", func(p *mesh.Proxy) { p.Account.Name = "other" }, `service account "other"`, true},
			{"no such group", func(p *mesh.Proxy) { p.Metadata.AutoRegisterGroup = "none" }, `WorkloadGroup "none" does not exist`, false},
		} {
			p := l.vm()
			tt.change(p)
			c, err := x.Connect(l.Context(), p)
			var refused *RegistrationError
			if c != nil || !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.want) ||
				refused.Denied != tt.denied {
				l.Errorf("%s: connected %v, error %v", tt.name, c, err)
			}
		}
		if list := l.entries(); len(list) != 0 {
			l.Errorf("there are entries: %v", list)
		}
		// An existing entry is not taken over either.
		x.connects(l.vm())
		p := l.vm()
		p.Account.Name = "thief"
		if _, err := l.replica("b").Connect(l.Context(), p); err == nil {
			l.Error("another account takes an entry over")
		}
		if e := l.get(vmName); e.Annotations[controllerAnnotation] != "a" {
			l.Errorf("the entry is %+v", e)
		}

		open := l.replica("c")
		open.allowAnyIdentity = true
		other := l.vm()
		other.Account, other.Addresses[0] = mesh.Account{}, other.Addresses[0].Next()
		open.connects(other)
		if plain := (&mesh.Proxy{Namespace: l.namespace, Addresses: other.Addresses}); true {
			if c, err := x.Connect(l.Context(), plain); c != nil || err != nil {
				l.Errorf("a proxy of no group: %v, %v", c, err)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		p := l.vm()
		p.Metadata.ProxyConfig = []byte(`{"readinessProbe": {"httpGet": {"port": 80}}}`)
		c := x.connects(p)
		if e := l.get(vmName); !e.hasHealthCheck() || findHealthCondition(e.Conditions) != nil {
			l.Fatalf("the entry is %+v", e)
		}
		c.SetHealth(true, "")
		is := func(status, message string) func() bool {
			return func() bool {
				h := findHealthCondition(l.get(vmName).Conditions)
				return h != nil && h["status"] == status && conditionMessage(h) == message
			}
		}
		l.eventually(is("True", ""), "it is not said to be healthy")
		e := l.get(vmName)
		if err := l.store.SetConditions(
			l.Context(),
			e,
			append(e.Conditions, map[string]any{"type": "Theirs", "status": "True"}),
		); err != nil {
			l.Fatal(err)
		}
		c.SetHealth(false, "connection refused")
		l.eventually(is("False", "connection refused"), "it is not said to be unhealthy")
		if e := l.get(vmName); len(e.Conditions) != 2 || e.Conditions[0].(map[string]any)["type"] != "Theirs" {
			l.Errorf("conditions of others are %v", e.Conditions)
		}
	})
}

// TestDelete tests the contract of each Store: an entry that has changed is not deleted, and one
// that is gone is no error.
func TestDelete(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		x.connects(l.vm())
		before := l.get(vmName)
		if err := l.store.Annotate(l.Context(), before, map[string]any{"x": "y"}); err != nil {
			l.Fatal(err)
		}
		if err := l.store.Delete(l.Context(), before); !errors.Is(err, ErrConflict) {
			l.Errorf("deleting an entry that has changed: %v, want ErrConflict", err)
		}
		now := l.get(vmName)
		for range 2 {
			if err := l.store.Delete(l.Context(), now); err != nil {
				l.Errorf("deleting an entry: %v", err)
			}
		}
		if e := l.get(vmName); e != nil {
			l.Errorf("the deleted entry is %+v", e)
		}
	})
}

func TestDeletedEntryIsCreatedAgain(t *testing.T) {
	inStores(t, func(l *lab) {
		x := l.replica("a")
		x.connects(l.vm())
		e := l.get(vmName)
		if err := l.store.Delete(l.Context(), e); err != nil {
			l.Fatal(err)
		}
		x.HandleEvents(
			mesh.Batch{
				{
					Op: mesh.Delete,
					Config: &config.Config{
						Meta: config.Meta{
							Key: config.Key{Kind: api.WorkloadEntry, Namespace: l.namespace, Name: vmName},
						},
					},
				},
			},
		)
		l.eventually(func() bool { return l.get(vmName) != nil }, "it is not made again")
	})
}

// Entries of a stopped replica are cleaned up by the leader.
func TestSweep(t *testing.T) {
	inStores(t, func(l *lab) {
		a, b := l.replica("a"), l.replica("b")
		a.connects(l.vm())
		second := l.vm()
		second.Addresses[0] = second.Addresses[0].Next()
		b.connects(second)
		a.stop() // without a word: it was killed
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.CleanUpAbandoned(ctx, func(_ context.Context, instance string) (bool, error) {
				if instance == "unknown" {
					return false, errors.New("the API server is away")
				}
				return instance != "a", nil
			})
		}()
		defer func() { cancel(); <-done }()
		l.eventually(func() bool { return l.get(vmName) == nil }, "the entry stays")
		if e := l.get("vms-10.0.0.8-dc1"); e == nil || e.Annotations[disconnectedAnnotation] != "" {
			l.Errorf("entry of a connected workload = %+v", e)
		}
	})
}

// A restarted replica with the same name does not know its previous workloads.
func TestResume(t *testing.T) {
	inStores(t, func(l *lab) {
		first := l.replica("a")
		first.connects(l.vm())
		second := l.vm()
		second.Addresses[0] = second.Addresses[0].Next()
		first.connects(second)
		first.stop()
		again := l.replica("a")
		again.connects(second)
		l.eventually(
			func() bool { return l.get(vmName).Annotations[disconnectedAnnotation] != "" },
			"no replica records the disconnect",
		)
		if e := l.get("vms-10.0.0.8-dc1"); e.Annotations[disconnectedAnnotation] != "" {
			l.Errorf("entry of a reconnected workload = %+v", e)
		}
	})
}

func TestHealthOfAUsersEntry(t *testing.T) {
	inStores(t, func(l *lab) {
		own := &Entry{
			Namespace:   l.namespace,
			Name:        "own",
			Annotations: map[string]string{healthCheckAnnotation: "1"}, // any boolean that Go reads
			Group:       Owner{Name: "vms"},
			Spec:        &networking.WorkloadEntry{Address: "10.0.0.9", ServiceAccount: "vm"},
		}
		if err := l.store.Create(l.Context(), own); err != nil {
			l.Fatal(err)
		}
		x := l.replica("a")
		p := l.vm()
		p.Metadata.AutoRegisterGroup, p.Metadata.WorkloadEntry = "", "own"
		c := x.connects(p)
		c.SetHealth(true, "")
		l.eventually(
			func() bool { return findHealthCondition(l.get("own").Conditions) != nil },
			"its health is not written",
		)
		c.Close()
		l.eventually(
			func() bool { return findHealthCondition(l.get("own").Conditions) == nil },
			"its health is still written",
		)
		if l.get("own") == nil {
			l.Error("the entry was deleted")
		}
		p.Metadata.WorkloadEntry = "none"
		if _, err := x.Connect(l.Context(), p); err == nil {
			l.Error("a proxy is an entry that there is not")
		}
	})
}

// away is an unavailable Store.
type away struct {
	Store
	mu   sync.Mutex
	back bool
}

var errAway = errors.New("connection refused")

func (s *away) Get(ctx context.Context, namespace, name string) (*Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.back {
		return nil, errAway
	}
	return s.Store.Get(ctx, namespace, name)
}

// A proxy is served though it cannot be registered now.
func TestUnavailableStore(t *testing.T) {
	t.Parallel()
	store := &away{Store: NewMemoryStore()}
	l := &lab{T: t, store: store, namespace: "vms"}
	l.group = l.newGroup()
	x := l.replica("a")
	x.connects(l.vm())
	store.mu.Lock()
	store.back = true
	store.mu.Unlock()
	l.eventually(func() bool { return l.get(vmName) != nil }, "it is not made when the store is back")
}

// What is in memory is a source of config.
func TestMemoryIsASource(t *testing.T) {
	t.Parallel()
	m := NewMemoryStore()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan mesh.Batch), make(chan error)
	go func() { done <- m.Run(ctx, out) }()
	if b := <-out; len(b) != 1 || b[0].Op != mesh.Synced {
		t.Fatalf("first batch = %+v", b)
	}
	e := &Entry{
		Namespace:   "vms",
		Name:        "vm",
		Annotations: map[string]string{healthCheckAnnotation: "true"},
		Spec:        &networking.WorkloadEntry{Address: "10.0.0.1"},
	}
	if err := m.Create(ctx, e); err != nil {
		t.Fatal(err)
	}
	b := <-out
	if c := b[0].Config; len(b) != 1 || b[0].Op != mesh.Upsert || c.Name != "vm" || c.Kind != api.WorkloadEntry ||
		c.Status != nil {
		t.Errorf("batch of a new entry = %+v", b)
	}
	if err := m.Annotate(ctx, e, connectedAnnotations("a", time.Now())); !errors.Is(err, ErrConflict) {
		t.Errorf("update of a changed entry: error %v", err)
	}
	e, _ = m.Get(ctx, "vms", "vm")
	h := Health{Healthy: true, At: time.Now()}
	list, _ := h.mergeInto(nil)
	if err := m.SetConditions(ctx, e, list); err != nil {
		t.Fatal(err)
	}
	if b := <-out; !b[0].Config.Status.Healthy {
		t.Errorf("batch of a healthy entry = %+v", b[0].Config)
	}
	e, _ = m.Get(ctx, "vms", "vm")
	if err := m.Delete(ctx, e); err != nil {
		t.Fatal(err)
	}
	if b := <-out; b[0].Op != mesh.Delete {
		t.Errorf("batch of a deleted entry = %+v", b)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
