package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/api/label"
)

// watches has the informers of one Run.
type watches struct {
	ctx   context.Context
	group *errgroup.Group
	o     Options
	// enqueue enqueues a Gateway, and enqueueIf the Gateways whose Spec fulfils a condition.
	enqueue   func(types.NamespacedName)
	enqueueIf func(func(*Spec) bool)

	gateways, namespaces, tags cache.SharedIndexInformer
	objects                    map[string]cache.SharedIndexInformer // by kind
	configMaps                 *configMaps
}

func gatewayResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1", Resource: "gateways"}
}

// newWatches returns watches whose informers are created but not started: of Gateways, Namespaces,
// revision tags, ConfigMaps with parameters, and objects of overlayKinds with managedLabel.
func newWatches(
	ctx context.Context,
	group *errgroup.Group,
	o Options,
	enqueue func(types.NamespacedName),
	enqueueIf func(func(*Spec) bool),
) *watches {
	w := &watches{
		ctx: ctx, group: group, o: o, enqueue: enqueue, enqueueIf: enqueueIf,
		objects: map[string]cache.SharedIndexInformer{},
	}
	w.gateways = w.metadata(gatewayResource(), "")
	w.namespaces = w.metadata(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "")
	w.tags = w.metadata(schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
	}, label.IoIstioTag.Name)
	for _, kind := range overlayKinds() {
		w.objects[kind.kind] = w.metadata(resource(kind.kind), managedLabel)
	}
	w.configMaps = newConfigMaps(w)
	return w
}

// metadata returns an informer of the metadata of a resource, which is not started. If labelled is
// not "", it has only objects with that label. Annotations are kept only of Gateways, and managed
// fields only of FieldManager.
func (w *watches) metadata(r schema.GroupVersionResource, labelled string) cache.SharedIndexInformer {
	informer := metadatainformer.NewFilteredMetadataInformer(
		w.o.Client.Metadata, r, metav1.NamespaceAll, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		func(o *metav1.ListOptions) { o.LabelSelector = labelled },
	).Informer()
	// The handlers below cannot fail before the informer has started.
	_ = informer.SetTransform(func(o any) (any, error) {
		m, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return o, nil
		}
		if r != gatewayResource() {
			m.Annotations = nil
		}
		m.ManagedFields = slices.DeleteFunc(m.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager != FieldManager
		})
		return m, nil
	})
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.o.Log.Debug("watching objects of gateways failed, retrying", "resource", r.Resource, "error", err)
	})
	return informer
}

// start starts the informers and waits until they have synced. Events of a Gateway or its objects
// enqueue that Gateway, of a namespace the Gateways in it, and of a revision tag all. It returns
// false if the context has ended before, or an informer cannot be watched, which is logged.
func (w *watches) start() bool {
	handle := func(informer cache.SharedIndexInformer, changed func(*metav1.PartialObjectMetadata)) error {
		notify := func(o any) {
			if m := metadataOf(o); m != nil {
				changed(m)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify,
		})
		return err
	}
	errs := []error{
		handle(w.gateways, func(m *metav1.PartialObjectMetadata) { w.enqueue(nameOf(m)) }),
		handle(w.namespaces, func(m *metav1.PartialObjectMetadata) {
			w.enqueueIf(func(s *Spec) bool { return s.Gateway.Namespace == m.Name })
		}),
		handle(w.tags, func(*metav1.PartialObjectMetadata) { w.enqueueIf(func(*Spec) bool { return true }) }),
	}
	all := []cache.SharedIndexInformer{w.gateways, w.namespaces, w.tags}
	for _, informer := range w.objects {
		errs = append(errs, handle(informer, w.enqueueOwner))
		all = append(all, informer)
	}
	if err := errors.Join(errs...); err != nil {
		w.o.Log.Error("watching the objects of gateways failed; no gateway is deployed", "error", err)
		return false
	}
	synced := make([]cache.InformerSynced, 0, len(all))
	for _, informer := range all {
		w.run(informer)
		synced = append(synced, informer.HasSynced)
	}
	return cache.WaitForCacheSync(w.ctx.Done(), synced...) && w.configMaps.start()
}

func (w *watches) run(informer cache.SharedIndexInformer) {
	w.group.Go(func() error { informer.RunWithContext(w.ctx); return nil })
}

// enqueueOwner enqueues each owner of an object whose kind is Gateway. The API group of the owner
// is not compared.
func (w *watches) enqueueOwner(m *metav1.PartialObjectMetadata) {
	for _, owner := range m.OwnerReferences {
		if owner.Kind == "Gateway" {
			w.enqueue(types.NamespacedName{Namespace: m.Namespace, Name: owner.Name})
		}
	}
}

// metadataOf returns the metadata in an informer's event, also of a deletion, or nil if it has
// none.
func metadataOf(o any) *metav1.PartialObjectMetadata {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	m, _ := o.(*metav1.PartialObjectMetadata)
	return m
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// lookup returns an object from an informer's cache, or nil if it is not there. A name without a
// namespace is that of a cluster-scoped object.
func lookup(informer cache.SharedIndexInformer, name types.NamespacedName) *metav1.PartialObjectMetadata {
	key := name.Name
	if name.Namespace != "" {
		key = name.String()
	}
	o, _, _ := informer.GetStore().GetByKey(key)
	return metadataOf(o)
}

// gateway returns the metadata of a Gateway from the informer, or nil if it is not there.
func (w *watches) gateway(name types.NamespacedName) *metav1.PartialObjectMetadata {
	return lookup(w.gateways, name)
}

// owned returns the metadata of an object with managedLabel from the informer of its kind, or nil
// if it is not there.
func (w *watches) owned(key objectKey) *metav1.PartialObjectMetadata {
	return lookup(w.objects[key.kind], key.NamespacedName)
}

// ownedBy returns the objects of a kind with managedLabel in a namespace that an owner with this
// UID has, nil if there are none.
func (w *watches) ownedBy(kind, namespace string, owner types.UID) []*metav1.PartialObjectMetadata {
	var list []*metav1.PartialObjectMetadata
	all, _ := w.objects[kind].GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	for _, o := range all {
		m := metadataOf(o)
		if m != nil && slices.ContainsFunc(m.OwnerReferences,
			func(r metav1.OwnerReference) bool { return r.UID == owner }) {
			list = append(list, m)
		}
	}
	return list
}

// namespaceRevision returns the revision in the label of a namespace, or "" if it has none or is
// unknown.
func (w *watches) namespaceRevision(namespace string) string {
	if m := lookup(w.namespaces, types.NamespacedName{Name: namespace}); m != nil {
		return m.Labels[label.IoIstioRev.Name]
	}
	return ""
}

// isTag reports whether a webhook configuration with the revision tag name is for the revision, by
// its labels.
func (w *watches) isTag(name, revision string) bool {
	return slices.ContainsFunc(w.tags.GetStore().List(), func(o any) bool {
		m := metadataOf(o)
		return m != nil && m.Labels[label.IoIstioTag.Name] == name && m.Labels[label.IoIstioRev.Name] == revision
	})
}

// classDefaults returns the data of the oldest ConfigMap in the root namespace with defaults for a
// class, or nil if there is none.
func (w *watches) classDefaults(class string) map[string]string {
	return w.configMaps.defaultsFor(class)
}

// configMap returns the data of a ConfigMap, or an error if it does not exist or its watch does not
// sync in time.
func (w *watches) configMap(name types.NamespacedName) (map[string]string, error) {
	data, exists := w.configMaps.get(name)
	if !exists {
		return nil, fmt.Errorf("ConfigMap %s, which has parameters of the gateway, does not exist", name)
	}
	return data, nil
}

// older compares objects by creation time, then by name; the older is first.
func older(a, b metav1.Object) int {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.GetName(), b.GetName()))
}
