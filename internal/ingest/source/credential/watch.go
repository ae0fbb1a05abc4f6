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

// place is what one watch follows: an object, or all of a kind in a namespace, or anywhere.
type place config.Key

// watch follows a place. Source.mu guards it.
type watch struct {
	stop    context.CancelFunc
	synced  bool  // objects are what there is, or was when that could last be read
	failure error // why the API server cannot be read at present; nil: it can
	objects map[config.Key]*config.Config
}

// follow starts a watch, which knows what the one before it did. s.mu is held.
func (s *Source) follow(ctx context.Context, p place, before *watch, running *sync.WaitGroup) {
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
	reflector := cache.NewReflectorWithOptions(s.listerWatcher(p, w), expected, &shelf{s, w}, cache.ReflectorOptions{
		Name:    "credentials " + config.Key(p).String(),
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 15 * time.Second},
	})
	running.Go(func() {
		defer stop()
		reflector.RunWithContext(ctx)
	})
}

// listerWatcher reads a place, and notes what becomes of it. s.mu is held.
func (s *Source) listerWatcher(p place, w *watch) cache.ListerWatcher {
	client := s.client.Kubernetes.CoreV1()
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = selector(p).String()
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			if p.Kind == api.ConfigMap {
				list, err = client.ConfigMaps(p.Namespace).List(ctx, selected(o))
			} else {
				list, err = client.Secrets(p.Namespace).List(ctx, selected(o))
			}
			s.noteFailure(ctx, w, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (stream apiwatch.Interface, err error) {
			if p.Kind == api.ConfigMap {
				stream, err = client.ConfigMaps(p.Namespace).Watch(ctx, selected(o))
			} else {
				stream, err = client.Secrets(p.Namespace).Watch(ctx, selected(o))
			}
			s.noteFailure(ctx, w, err)
			return stream, err
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, s.client.Kubernetes)
}

// selector gives what of a place is read: the one object, or all that may be a credential. What Helm and service accounts keep is
// none, and large.
func selector(p place) fields.Selector {
	if p.Name != "" {
		return fields.OneTermEqualSelector(metav1.ObjectNameField, mesh.RemoteSecretName(p.Name))
	}
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("type", "helm.sh/release.v1"),
		fields.OneTermNotEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)),
	)
}

// noteFailure notes whether a place could be read. Old states are forgotten by the API server as a matter of course.
func (s *Source) noteFailure(ctx context.Context, w *watch, err error) {
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
		s.rouse()
	}
}

// shelf is where a reflector puts what it reads.
type shelf struct {
	s *Source
	w *watch
}

var _ cache.ReflectorStore = (*shelf)(nil)

// Add takes an object in.
func (x *shelf) Add(o any) error { return x.Update(o) }

// Update takes an object in.
func (x *shelf) Update(o any) error {
	c, err := x.s.convert(o)
	if err != nil {
		return err
	}
	x.change(func() { x.w.objects[c.Key] = c })
	return nil
}

// Delete takes an object away.
func (x *shelf) Delete(o any) error {
	c, err := x.s.convert(o)
	if err != nil {
		return err
	}
	x.change(func() { delete(x.w.objects, c.Key) })
	return nil
}

// Replace takes in all that there is.
func (x *shelf) Replace(list []any, _ string) error {
	all := make(map[config.Key]*config.Config, len(list))
	for _, o := range list {
		c, err := x.s.convert(o)
		if err != nil {
			return err
		}
		all[c.Key] = c
	}
	x.change(func() {
		clear(x.w.objects)
		maps.Copy(x.w.objects, all)
		x.w.synced, x.w.failure = true, nil
	})
	return nil
}

// Resync does nothing.
func (x *shelf) Resync() error { return nil }

func (x *shelf) change(f func()) {
	x.s.mu.Lock()
	f()
	x.s.mu.Unlock()
	x.s.rouse()
}

// convert makes a Config of a Secret or ConfigMap, with nothing of it that is of no use here.
func (s *Source) convert(o any) (*config.Config, error) {
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

func bare(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}
}
