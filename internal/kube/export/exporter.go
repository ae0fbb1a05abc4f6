package export

import (
	"context"
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

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// Options configure an Exporter.
type Options struct {
	// Client accesses the cluster of the Services. The Exporter uses its own connections and rate
	// limit: the first sync may create thousands of exports.
	Client *kube.Client
	// Services returns the Services to export now.
	Services func() []types.NamespacedName
	// Retry and MaxRetry bound the backoff after failures (defaults 1 s and 30 s).
	Retry, MaxRetry time.Duration
	Log             *slog.Logger // If nil, nothing is logged.
}

// Exporter creates ServiceExports.
type Exporter struct {
	o       Options
	trigger notify.Wake
}

// Limits for requests that create exports. Each export takes two requests, and none is urgent.
const (
	exportQPS   = 20
	exportBurst = 40
)

// New returns an Exporter, with defaults for Retry (1 s), MaxRetry (30 s) and Log (none). It sends
// no request before Run. It returns an error if the Client's configuration is invalid.
func New(o Options) (*Exporter, error) {
	client, err := o.Client.WithRateLimit(exportQPS, exportBurst)
	if err != nil {
		return nil, err
	}
	o.Client = client
	if o.Retry == 0 {
		o.Retry = time.Second
	}
	if o.MaxRetry == 0 {
		o.MaxRetry = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Exporter{o: o, trigger: notify.NewWake()}, nil
}

// Trigger makes Run read Options.Services again. It does not block.
func (x *Exporter) Trigger() { x.trigger.Notify() }

// Run creates missing exports at the start, after each Trigger, and again with a backoff after
// errors, until ctx ends. It can be called again afterwards. It logs an error once until it
// changes.
func (x *Exporter) Run(ctx context.Context) {
	r := syncState{Exporter: x}
	lastError := ""
	for backoff := retry.NewBackoff(x.o.Retry, x.o.MaxRetry); ; {
		var again <-chan time.Time
		switch err := r.createMissing(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			if text := err.Error(); text != lastError {
				lastError = text
				x.o.Log.Warn("exporting services failed, retrying", "error", err)
			}
			again = time.After(backoff.NextBackOff())
		default:
			backoff.Reset()
			lastError = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-x.trigger.C():
		case <-again:
		}
	}
}

// syncState is the state of one Run.
type syncState struct {
	*Exporter
	resource schema.GroupVersionResource // the served version; empty if unknown
	// outdated is true if resource and exported must be read again.
	outdated bool
	// exported contains the services whose export exists, or existed when this syncState saw it.
	exported map[types.NamespacedName]bool
}

// createMissing creates the missing exports, and forgets unwanted ones. It continues after a failed
// export, and returns the first error. If the existing exports cannot be listed, it returns that
// error and does nothing. It ends early if ctx ends, or if the existing exports must be read again.
func (r *syncState) createMissing(ctx context.Context) error {
	if err := r.loadExisting(ctx); err != nil {
		return err
	}
	wanted := r.o.Services()
	r.forgetUnwanted(wanted)
	var first error
	count := 0
	for _, k := range wanted {
		if r.exported[k] {
			continue
		}
		created, err := r.createExport(ctx, k)
		if created {
			count++
		}
		if err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil || r.outdated {
			break
		}
	}
	if count > 0 {
		r.o.Log.Info("exported services", "new", count, "all", len(r.exported))
	}
	return first
}

// loadExisting finds the served version of the kind and lists the existing exports, which replace
// the known ones. It does nothing if they are loaded already and not outdated. It returns an error,
// and changes nothing, if the kind is not served or a request fails.
func (r *syncState) loadExisting(ctx context.Context) error {
	if r.exported != nil && !r.outdated {
		return nil
	}
	kind, err := served.New(r.o.Client.Kubernetes, nil).Resource(ctx, api.ServiceExport)
	if err != nil {
		return err
	}
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
	r.resource, r.exported, r.outdated = kind, known, false
	return nil
}

// forgetUnwanted forgets the exports of services that are not in wanted; it deletes nothing. If
// such a service returns, it may be another one.
func (r *syncState) forgetUnwanted(wanted []types.NamespacedName) {
	there := make(map[types.NamespacedName]bool, len(wanted))
	for _, k := range wanted {
		there[k] = true
	}
	for k := range r.exported {
		if !there[k] {
			delete(r.exported, k)
		}
	}
}

// createExport creates the export of one Service and reports whether it did. It does nothing if the
// Service is gone. An existing export is adopted. Any other error has the name of the Service; if
// the kind or the namespace is not found, the exports are read again next time.
func (r *syncState) createExport(ctx context.Context, k types.NamespacedName) (created bool, err error) {
	service, err := r.getMetadata(ctx, corev1.SchemeGroupVersion.WithResource("services"), k)
	if err != nil {
		return false, err
	}
	if service == nil {
		return false, nil // deleted; Trigger will follow
	}
	exports := r.o.Client.Dynamic.Resource(r.resource).Namespace(k.Namespace)
	_, err = exports.Create(ctx, r.newExport(service), metav1.CreateOptions{})
	switch {
	case err == nil:
		r.exported[k] = true
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, r.adoptExisting(ctx, k, service.UID)
	case apierrors.IsNotFound(err):
		// The kind was removed, is served in another version, or the namespace was deleted.
		r.outdated = true
	}
	return false, fmt.Errorf("export %s: %w", k, err)
}

// adoptExisting records an existing export of the Service with this UID. It returns an error, to be
// retried, if the export does not exist any more. It also does if the export belongs to a deleted
// Service of the same name and so will be deleted too.
func (r *syncState) adoptExisting(ctx context.Context, k types.NamespacedName, uid types.UID) error {
	there, err := r.getMetadata(ctx, r.resource, k)
	if err != nil {
		return err
	}
	if there == nil {
		return fmt.Errorf("export %s: the existing export was deleted concurrently", k)
	}
	for _, o := range there.OwnerReferences {
		if o.Kind == "Service" && o.Name == k.Name && o.UID != uid {
			return fmt.Errorf("export %s: the export of the deleted Service still exists", k)
		}
	}
	r.exported[k] = true
	return nil
}

// getMetadata requests the metadata of an object from the API server. It returns nil without an
// error if there is none.
func (r *syncState) getMetadata(
	ctx context.Context,
	kind schema.GroupVersionResource,
	k types.NamespacedName,
) (*metav1.PartialObjectMetadata, error) {
	// List requires no additional permission.
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

// newExport returns the ServiceExport of a Service, which owns it.
func (r *syncState) newExport(service *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.resource.GroupVersion().String())
	u.SetKind("ServiceExport")
	u.SetNamespace(service.Namespace)
	u.SetName(service.Name)
	u.SetOwnerReferences(
		[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}},
	)
	return u
}
