package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// patience bounds every wait.
const patience = 30 * time.Second

// newClient makes a client of ours, whose connections end with the test.
func newClient(t *testing.T, c *rest.Config) *kube.Client {
	t.Helper()
	client, err := kube.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return client
}

// reader receives the batches of a source.
type reader struct {
	t      *testing.T
	source *Source

	mu       sync.Mutex
	changed  chan struct{} // closed with every batch
	objects  map[config.Key]*config.Config
	problems map[string][]config.Problem
	synced   bool
	events   []mesh.Event // about objects, since the last look
	batches  int
}

// read runs a source until the test ends.
func read(t *testing.T, o Options) *reader {
	t.Helper()
	if o.Name == "" {
		o.Name = "kubernetes/test"
	}
	r := &reader{t: t, source: New(o), changed: make(chan struct{}), objects: map[config.Key]*config.Config{}, problems: map[string][]config.Problem{}}
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan mesh.Batch), make(chan error, 1)
	go func() { done <- r.source.Run(ctx, out) }()
	go func() {
		for {
			select {
			case b := <-out:
				r.recordBatch(b)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the source does not end")
		}
	})
	return r
}

func (r *reader) recordBatch(b mesh.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches++
	for _, e := range b {
		switch {
		case e.Op == mesh.Synced:
			if r.synced {
				r.t.Error("Synced twice")
			}
			r.synced = true
		case e.Problems != nil:
			r.problems[e.Problems.Scope] = e.Problems.List
		case e.Op == mesh.Delete:
			if r.objects[e.Config.Key] == nil {
				r.t.Errorf("%s is deleted, and was not there", e.Config.Key)
			}
			delete(r.objects, e.Config.Key)
			r.events = append(r.events, e)
		default:
			r.objects[e.Config.Key] = e.Config
			r.events = append(r.events, e)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until a condition holds for the received state.
func (r *reader) await(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		ok, changed := holds(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("%s: not in %v; waiting for %q, problems %v", what, patience, r.source.Waiting(), r.all())
		}
	}
}

func (r *reader) awaitSynced() {
	r.t.Helper()
	r.await("synced", func() bool { return r.synced })
}

// all returns all Problems there are, sorted.
func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, scope := range slices.Sorted(maps.Keys(r.problems)) {
		for _, p := range r.problems[scope] {
			list = append(list, string(p.Severity)+": "+p.String())
		}
	}
	return list
}

// has reports whether there is a Problem with all of the texts in it. The reader is locked.
func (r *reader) has(texts ...string) bool {
	for _, list := range r.problems {
		for _, p := range list {
			if !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(p.String(), t) }) {
				return true
			}
		}
	}
	return false
}

// drainEvents returns the events about objects since its last call, as "upsert Service/ns/name".
func (r *reader) drainEvents() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, e := range r.events {
		list = append(list, fmt.Sprintf("%s %s", e.Op, e.Config.Key))
	}
	r.events = nil
	return list
}

func (r *reader) get(kind api.Kind, namespace, name string) *config.Config {
	return r.objects[config.Key{Kind: kind, Namespace: namespace, Name: name}]
}

// objectsOf is where objects of a custom kind are written.
func objectsOf(t *testing.T, c *rest.Config, kind api.Kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	info, _ := api.Info(kind)
	client := newClient(t, c)
	return client.Dynamic.Resource(gvr(info.Group, info.Versions[0], info.Plural)).Namespace(namespace)
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}
