package status

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// journal is every version of the VirtualServices of a namespace, as a watch shows them.
type journal struct {
	mu       sync.Mutex
	versions map[string]map[string]bool // by name
	times    []time.Time                // of changes of status
}

func (l *lab) journal() *journal {
	l.Helper()
	j := &journal{versions: map[string]map[string]bool{}}
	l.watch("", j.add)
	return j
}

func (j *journal) add(o *unstructured.Unstructured) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.versions[o.GetName()] == nil {
		j.versions[o.GetName()] = map[string]bool{}
	}
	if !j.versions[o.GetName()][o.GetResourceVersion()] && said(o) != "" {
		j.times = append(j.times, time.Now())
	}
	j.versions[o.GetName()][o.GetResourceVersion()] = true
}

func (j *journal) count(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.versions[name])
}

// watch calls add with the present and each later version of the VirtualServices of the namespace,
// until the test ends. If name is not "", only the VirtualService of that name is watched. A watch
// that the API server ends, as it does if its client is slow, is resumed and leaves nothing out.
func (l *lab) watch(name string, add func(*unstructured.Unstructured)) {
	l.Helper()
	r, _ := resourceOf(api.VirtualService)
	client := l.dynamic.Resource(r).Namespace(l.namespace)
	selector := fields.Everything()
	if name != "" {
		selector = fields.OneTermEqualSelector("metadata.name", name)
	}
	list, err := client.List(l.Context(), metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		l.Fatal(err)
	}
	for i := range list.Items {
		add(&list.Items[i])
	}
	w, err := watchtools.NewRetryWatcherWithContext(l.Context(), list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return client.Watch(ctx, o)
		},
	})
	if err != nil {
		l.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				add(o)
			}
		}
	}()
	l.Cleanup(func() { w.Stop(); <-done })
}

// versions counts how often an object was written, by a watch of its own.
func (l *lab) versions(name string) (count func() int) {
	l.Helper()
	var mu sync.Mutex
	seen := map[string]bool{}
	l.watch(name, func(o *unstructured.Unstructured) {
		mu.Lock()
		defer mu.Unlock()
		seen[o.GetResourceVersion()] = true
	})
	return func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
}
