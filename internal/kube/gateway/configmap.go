package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// classDefaultsLabel labels a ConfigMap in the root namespace with the class that it has defaults
// for, as in Istio.
const classDefaultsLabel = "gateway.istio.io/defaults-for-class"

// configMaps watches the ConfigMaps with defaults for classes, and each ConfigMap that was looked
// up. Others are not read.
type configMaps struct {
	w        *watches
	defaults cache.SharedIndexInformer

	mu    sync.Mutex
	named map[types.NamespacedName]cache.SharedIndexInformer
}

// newConfigMaps returns configMaps without a started watch. The defaults are the ConfigMaps in
// Options.Namespace with the label classDefaultsLabel.
func newConfigMaps(w *watches) *configMaps {
	c := &configMaps{w: w, named: map[types.NamespacedName]cache.SharedIndexInformer{}}
	c.defaults = c.informer(w.o.Namespace, func(o *metav1.ListOptions) { o.LabelSelector = classDefaultsLabel })
	return c
}

// informer returns an informer of the ConfigMaps of a namespace that restrict selects, without
// their binaryData, which is not started. It logs failed watches.
func (c *configMaps) informer(namespace string, restrict func(*metav1.ListOptions)) cache.SharedIndexInformer {
	informer := coreinformers.NewFilteredConfigMapInformer(
		c.w.o.Client.Kubernetes, namespace, 0, cache.Indexers{}, restrict,
	)
	// Setting these fails only after the start.
	_ = informer.SetTransform(func(o any) (any, error) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			m.ManagedFields, m.BinaryData = nil, nil
		}
		return o, nil
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.w.o.Log.Warn("watching ConfigMaps with parameters of gateways failed, retrying", "namespace", namespace,
			"error", err)
	})
	return informer
}

// start starts the watch of the classes' defaults; a change enqueues the Gateways of the class, and
// of the class that the ConfigMap had before. It returns false if the handler cannot be added, or
// the context has ended before the watch has synced.
func (c *configMaps) start() bool {
	changed := func(o any) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if m, ok := o.(*corev1.ConfigMap); ok {
			c.w.enqueueIf(func(s *Spec) bool { return s.Class == m.Labels[classDefaultsLabel] })
		}
	}
	if !c.handle(c.defaults, changed, func(from, to any) {
		changed(from) // of another class before
		changed(to)
	}) {
		return false
	}
	c.w.run(c.defaults)
	return cache.WaitForCacheSync(c.w.ctx.Done(), c.defaults.HasSynced)
}

// handle calls changed for added and deleted ConfigMaps of an informer and updated for updates. It
// returns false, and logs why, if that fails.
func (c *configMaps) handle(informer cache.SharedIndexInformer, changed func(any), updated func(from, to any)) bool {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: updated, DeleteFunc: changed,
	})
	if err != nil {
		c.w.o.Log.Error("watching ConfigMaps with parameters of gateways failed", "error", err)
	}
	return err == nil
}

// defaultsFor returns the data of the oldest ConfigMap with defaults for a class, or nil if there
// is none.
func (c *configMaps) defaultsFor(class string) map[string]string {
	var list []*corev1.ConfigMap
	for _, o := range c.defaults.GetStore().List() {
		if m, ok := o.(*corev1.ConfigMap); ok && m.Labels[classDefaultsLabel] == class {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *corev1.ConfigMap) int { return older(a, b) }).Data
}

// syncTimeout bounds the first read of a ConfigMap. If it takes longer, the ConfigMap is treated
// as missing until its event arrives.
const syncTimeout = 10 * time.Second

// get returns the data of a ConfigMap, and false if it does not exist or its watch does not sync in
// time. The first call for a ConfigMap starts its watch, which enqueues the Gateways that use it
// whenever it changes.
func (c *configMaps) get(name types.NamespacedName) (data map[string]string, exists bool) {
	informer := c.watchNamed(name)
	ctx, cancel := context.WithTimeout(c.w.ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, false
	}
	o, _, _ := informer.GetStore().GetByKey(name.String())
	m, ok := o.(*corev1.ConfigMap)
	if !ok {
		return nil, false
	}
	return m.Data, true
}

// watchNamed returns the informer of a ConfigMap, and starts it in the first call for that
// ConfigMap. Changes enqueue the Gateways that use the ConfigMap. It does not wait for the
// ConfigMap.
func (c *configMaps) watchNamed(name types.NamespacedName) cache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if informer := c.named[name]; informer != nil {
		return informer
	}
	informer := c.informer(name.Namespace, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name.Name).String()
	})
	changed := func(any) { c.w.enqueueIf(func(s *Spec) bool { return usesConfigMap(s, name) }) }
	c.handle(informer, changed, func(_, o any) { changed(o) })
	c.named[name] = informer
	c.w.run(informer)
	return informer
}

// usesConfigMap reports whether a Gateway or its class names a ConfigMap as its parameters. A
// Gateway names one in its own namespace; the kind of its reference is not checked here.
func usesConfigMap(s *Spec, name types.NamespacedName) bool {
	if s.ClassParameters != nil && *s.ClassParameters == name {
		return true
	}
	i := s.Infrastructure
	return i != nil && i.ParametersRef != nil && s.Gateway.Namespace == name.Namespace &&
		i.ParametersRef.Name == name.Name
}
