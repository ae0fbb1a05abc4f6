package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// Options are what an Exporter needs.
type Options struct {
	// Client is of the cluster whose Services they are. It is to have a limit of its own: at first there may be thousands to make.
	Client *kube.Client
	// Services gives those that are to be exported, as of now.
	Services func() []types.NamespacedName
	// Retry and MaxRetry bound the time until what failed is tried again; 1 s and 30 s if zero.
	Retry, MaxRetry time.Duration
	Log             *slog.Logger // none if nil
}

// Exporter makes exports.
type Exporter struct {
	o    Options
	look chan struct{} // holds one token
}

// New makes an Exporter. It asks nothing before Run.
func New(o Options) *Exporter {
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.MaxRetry == 0 {
		o.MaxRetry = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Exporter{o: o, look: make(chan struct{}, 1)}
}

// Look says that there may be other services to export.
func (x *Exporter) Look() {
	select {
	case x.look <- struct{}{}:
	default:
	}
}

// Run makes what is missing, until the context ends. It may run again then.
func (x *Exporter) Run(ctx context.Context) {
	r := run{Exporter: x}
	said := ""
	for pause := x.o.Retry; ; {
		var again <-chan time.Time
		switch err := r.make(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			if text := err.Error(); text != said {
				said = text
				x.o.Log.Warn("services are not exported", "error", err)
			}
			again = time.After(pause)
			pause = min(2*pause, x.o.MaxRetry)
		default:
			pause, said = x.o.Retry, ""
		}
		select {
		case <-ctx.Done():
			return
		case <-x.look:
		case <-again:
		}
	}
}

// run is one term of a leader.
type run struct {
	*Exporter
	kind schema.GroupVersionResource // as it is served; empty if that is not known
	// known are the services that have an export, or had one that somebody took away.
	known map[types.NamespacedName]bool
}

// make makes what is missing. It goes on after an error, and gives the first one.
func (r *run) make(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	wanted := r.o.Services()
	r.forget(wanted)
	var first error
	made := 0
	for _, k := range wanted {
		if r.known[k] {
			continue
		}
		created, err := r.export(ctx, k)
		if created {
			made++
		}
		if err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if made > 0 {
		r.o.Log.Info("services are exported", "new", made, "all", len(r.known))
	}
	return first
}

// begin finds out which version of the kind is served, and which exports there are.
func (r *run) begin(ctx context.Context) error {
	if r.known != nil {
		return nil
	}
	version, err := r.served()
	if err != nil {
		return err
	}
	kind := schema.GroupVersionResource{Group: mcsv1beta1.GroupName, Version: version, Resource: "serviceexports"}
	known := map[types.NamespacedName]bool{}
	for options := (metav1.ListOptions{Limit: 500}); ; {
		list, err := r.o.Client.Metadata.Resource(kind).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list ServiceExports: %w", err)
		}
		for i := range list.Items {
			known[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}] = true
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	r.kind, r.known = kind, known
	return nil
}

// served gives the version of the group that the API server prefers.
func (r *run) served() (string, error) {
	groups, err := r.o.Client.Kubernetes.Discovery().ServerGroups()
	if err != nil {
		return "", fmt.Errorf("find out which kinds there are: %w", err)
	}
	for _, g := range groups.Groups {
		if g.Name == mcsv1beta1.GroupName {
			return g.PreferredVersion.Version, nil
		}
	}
	return "", errors.New("the kind ServiceExport (" + mcsv1beta1.GroupName + ") is not installed")
}

// forget forgets services that are not to be exported any more: should they come back, they may be others.
func (r *run) forget(wanted []types.NamespacedName) {
	there := make(map[types.NamespacedName]bool, len(wanted))
	for _, k := range wanted {
		there[k] = true
	}
	for k := range r.known {
		if !there[k] {
			delete(r.known, k)
		}
	}
}

// export makes the export of one Service.
func (r *run) export(ctx context.Context, k types.NamespacedName) (created bool, err error) {
	service, err := r.one(ctx, corev1.SchemeGroupVersion.WithResource("services"), k)
	if err != nil {
		return false, err
	}
	if service == nil {
		return false, nil // it has gone meanwhile, which will be said
	}
	_, err = r.o.Client.Dynamic.Resource(r.kind).Namespace(k.Namespace).Create(ctx, r.object(service), metav1.CreateOptions{})
	switch {
	case err == nil:
		r.known[k] = true
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, r.exists(ctx, k, service.UID)
	case apierrors.IsNotFound(err):
		r.known = nil // the kind has gone, or is served in another version
	}
	return false, fmt.Errorf("export %s: %w", k, err)
}

// exists takes up an export that is there already. If it is that of a Service of the same name that is gone it will go too, and then
// there has to be another.
func (r *run) exists(ctx context.Context, k types.NamespacedName, uid types.UID) error {
	there, err := r.one(ctx, r.kind, k)
	if err != nil {
		return err
	}
	if there == nil {
		return fmt.Errorf("export %s: the one that was there has gone", k)
	}
	for _, o := range there.OwnerReferences {
		if o.Kind == "Service" && o.Name == k.Name && o.UID != uid {
			return fmt.Errorf("export %s: that of its predecessor has not gone yet", k)
		}
	}
	r.known[k] = true
	return nil
}

// one gives the metadata of an object, nil if there is none.
func (r *run) one(ctx context.Context, kind schema.GroupVersionResource, k types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	// Listing takes no permission that the control plane has not got anyway.
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", k.Name).String()}
	list, err := r.o.Client.Metadata.Resource(kind).Namespace(k.Namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("look at %s %s: %w", kind.Resource, k, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// object is the export of a Service.
func (r *run) object(service *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.kind.GroupVersion().String())
	u.SetKind("ServiceExport")
	u.SetNamespace(service.Namespace)
	u.SetName(service.Name)
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}})
	return u
}
