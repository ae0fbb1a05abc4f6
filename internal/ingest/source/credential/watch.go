package credential

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// watchScope is the scope of one watch: an object, or all objects of a kind in a namespace or in
// the cluster.
type watchScope config.Key

// watch is the state of one watch. It is guarded by Source.mu.
type watch struct {
	stop    context.CancelFunc
	synced  bool  // objects is complete, as of the last successful list
	failure error // why the API server cannot be read at present, or nil
	objects map[config.Key]*config.Config
}

// startWatch starts a watch of scope p, in a goroutine of running until ctx ends, and stores it in
// s.watches. It begins with the objects of before, the watch that it replaces, or none if that is
// nil. It does not stop before. s.mu must be held.
func (s *Source) startWatch(ctx context.Context, p watchScope, before *watch, running *sync.WaitGroup) {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{stop: stop, objects: map[config.Key]*config.Config{}}
	if before != nil {
		w.synced, w.objects = before.synced, maps.Clone(before.objects)
	}
	s.watches[p] = w
	var expected runtime.Object = new(corev1.Secret)
	if p.Kind == api.ConfigMap {
		expected = new(corev1.ConfigMap)
	}
	reflector := cache.NewReflectorWithOptions(
		s.listerWatcher(p, w),
		expected,
		&watchStore{s, w},
		cache.ReflectorOptions{
			Name: "credentials " + config.Key(p).String(),
			Backoff: &wait.Backoff{
				Duration: 200 * time.Millisecond,
				Factor:   2,
				Jitter:   0.5,
				Steps:    8,
				Cap:      15 * time.Second,
			},
		},
	)
	running.Go(func() {
		defer stop()
		reflector.RunWithContext(ctx)
	})
}

// listerWatcher returns a ListerWatcher of the Secrets, or by the kind of p the ConfigMaps, that
// fieldSelector(p) selects in p's namespace. It records in w whether requests fail (recordFailure).
// s.mu must be held.
func (s *Source) listerWatcher(p watchScope, w *watch) cache.ListerWatcher {
	client := s.client.Kubernetes.CoreV1()
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = fieldSelector(p).String()
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			if p.Kind == api.ConfigMap {
				list, err = client.ConfigMaps(p.Namespace).List(ctx, selected(o))
			} else {
				list, err = client.Secrets(p.Namespace).List(ctx, selected(o))
			}
			s.recordFailure(ctx, w, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (stream apiwatch.Interface, err error) {
			if p.Kind == api.ConfigMap {
				stream, err = client.ConfigMaps(p.Namespace).Watch(ctx, selected(o))
			} else {
				stream, err = client.Secrets(p.Namespace).Watch(ctx, selected(o))
			}
			s.recordFailure(ctx, w, err)
			return stream, err
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, s.client.Kubernetes)
}

// fieldSelector returns the field selector of a scope: the name of its object. Without a name it
// selects all Secrets except the Secrets of Helm and of service accounts, which are large and no
// credentials.
func fieldSelector(p watchScope) fields.Selector {
	if p.Name != "" {
		return fields.OneTermEqualSelector(metav1.ObjectNameField, mesh.RemoteSecretName(p.Name))
	}
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("type", "helm.sh/release.v1"),
		fields.OneTermNotEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)),
	)
}

// recordFailure records the result of a request for a watch, and wakes Run if it begins or ceases
// to fail. It calls Options.Failed for each error. Expired resource versions and results after ctx
// ended are ignored. It takes s.mu.
func (s *Source) recordFailure(ctx context.Context, w *watch, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	if err != nil {
		s.o.Failed()
	}
	s.mu.Lock()
	differs := (err == nil) != (w.failure == nil)
	w.failure = err
	s.mu.Unlock()
	if differs {
		s.wake.Notify()
	}
}

// watchStore stores the objects that a reflector reads.
type watchStore struct {
	s *Source
	w *watch
}

var _ cache.ReflectorStore = (*watchStore)(nil)

// Add stores an object and wakes Run. It returns an error if it has another type.
func (x *watchStore) Add(o any) error { return x.Update(o) }

// Update stores an object and wakes Run. It returns an error if it has another type.
func (x *watchStore) Update(o any) error {
	c, err := x.s.newConfig(o)
	if err != nil {
		return err
	}
	x.update(func() { x.w.objects[c.Key] = c })
	return nil
}

// Delete deletes an object and wakes Run. It returns an error if it has another type.
func (x *watchStore) Delete(o any) error {
	c, err := x.s.newConfig(o)
	if err != nil {
		return err
	}
	x.update(func() { delete(x.w.objects, c.Key) })
	return nil
}

// Replace replaces all objects, clears a failure, marks the watch as in sync and wakes Run. It
// fails without a change if an element has another type.
func (x *watchStore) Replace(list []any, _ string) error {
	all := make(map[config.Key]*config.Config, len(list))
	for _, o := range list {
		c, err := x.s.newConfig(o)
		if err != nil {
			return err
		}
		all[c.Key] = c
	}
	x.update(func() {
		clear(x.w.objects)
		maps.Copy(x.w.objects, all)
		x.w.synced, x.w.failure = true, nil
	})
	return nil
}

// Resync does nothing.
func (x *watchStore) Resync() error { return nil }

// update calls f while the Source is locked, and wakes Run.
func (x *watchStore) update(f func()) {
	x.s.mu.Lock()
	f()
	x.s.mu.Unlock()
	x.s.wake.Notify()
}

// newConfig returns the Config of a Secret or ConfigMap, of whose metadata only the name and
// namespace stay. A Secret gets the key of a RemoteSecret if Options.Cluster is set. It returns an
// error for other types.
func (s *Source) newConfig(o any) (*config.Config, error) {
	var (
		meta   *metav1.ObjectMeta
		kind   api.Kind
		object any
	)
	switch o := o.(type) {
	case *corev1.Secret:
		meta, kind = &o.ObjectMeta, api.Secret
		object = &corev1.Secret{ObjectMeta: bare(meta), Type: o.Type, Data: o.Data}
	case *corev1.ConfigMap:
		meta, kind = &o.ObjectMeta, api.ConfigMap
		object = &corev1.ConfigMap{ObjectMeta: bare(meta), Data: o.Data, BinaryData: o.BinaryData}
	default:
		return nil, fmt.Errorf("credentials: %T is neither a Secret nor a ConfigMap", o)
	}
	key := config.Key{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}
	if s.o.Cluster != "" && kind == api.Secret {
		key = mesh.RemoteSecretKey(s.o.Cluster, meta.Namespace, meta.Name)
	}
	return config.New(config.Meta{
		Key:     key,
		Created: meta.CreationTimestamp.UTC(), ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
	}, object)
}

// bare returns metadata with only the namespace and name of m.
func bare(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}
}
