package status

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Desired is the status that an object of the Gateway API should have. It is immutable.
type Desired struct {
	// Generation is the generation of the object that the status was computed from. It is not
	// written to objects of another generation.
	Generation int64
	// Value is *gatewayv1.GatewayClassStatus, *GatewayStatus, *ListenerSetStatus, *RouteStatus,
	// *PolicyStatus, *inferencev1.InferencePoolStatus, *gatewayx.MeshStatus or
	// *gatewayx.BackendStatus. It has only entries of this project's controllers, and no transition
	// times. Equal pointers mean equal values.
	Value any
}

// DesiredStatuses are the desired statuses of all objects of the Gateway API. The functions must be
// safe for concurrent use.
type DesiredStatuses struct {
	// Get returns the status of an object, and false if it has none of this project's controllers.
	Get func(config.Key) (Desired, bool)
	// Kinds returns the kinds of objects with a status.
	Kinds func() map[api.Kind]struct{}
	// IsOwn reports whether a controller name in a route's or a policy's status is this project's.
	IsOwn func(controller string) bool
}

// LeadGatewayAPI writes the status of objects of the Gateway API without a revision until ctx ends.
// If this is the default revision, it also writes the status of objects that select it or one of
// its tags. Only the leader of all revisions' replicas calls it.
func (w *Writer) LeadGatewayAPI(ctx context.Context, desired DesiredStatuses) {
	w.writeGatewayAPI(ctx, desired, func(revision string) bool { return revision == "" || w.isDefault() })
}

// LeadGatewayAPIRevision writes the status of objects of the Gateway API that select the revision
// or one of its tags until ctx ends. It must not be called for the default revision, whose objects
// LeadGatewayAPI writes. Only the leader of that revision's replicas calls it.
func (w *Writer) LeadGatewayAPIRevision(ctx context.Context, desired DesiredStatuses) {
	w.writeGatewayAPI(ctx, desired, func(revision string) bool { return revision != "" })
}

// writeGatewayAPI writes desired statuses until ctx ends. mine reports whether the caller writes
// for a revision label. Gateways are read whatever their revision is, so objects of other revisions
// are left out here. Without a revision of its own, it writes all objects that mine accepts. If the
// revision tags cannot be watched, it logs that and returns at once.
func (w *Writer) writeGatewayAPI(ctx context.Context, desired DesiredStatuses, mine func(revision string) bool) {
	news, end := w.Applied.subscribe()
	defer end()
	tags, err := newRevisionTags(w.Dynamic, w.Applied.Notify)
	if err != nil {
		w.Log.Error("revision tags cannot be watched; no status of the Gateway API is written", "error", err)
		return
	}
	stop := tags.run(ctx)
	defer stop()
	selects := func(revision string) bool {
		return mine(revision) && (w.Revision == "" || revision == "" || revision == w.Revision ||
			tags.has(revision, w.Revision))
	}
	newWriteLoop(&gatewayAPIEvaluator{
		DesiredStatuses: desired, selectsRevision: selects, now: w.Now, log: w.logInvalidStatus,
	}, w.Options).run(ctx, news)
}

// logInvalidStatus logs a status that cannot be encoded.
func (w *Writer) logInvalidStatus(k config.Key, err error) {
	w.Log.Error("a status cannot be encoded; it is not written", "object", k.String(), "error", err)
}

// gatewayAPIEvaluator compares the status of objects with the desired one.
type gatewayAPIEvaluator struct {
	DesiredStatuses
	selectsRevision func(revision string) bool
	now             func() time.Time
	log             func(config.Key, error)
	// upToDate are the objects that had the desired status when they were last compared. Only
	// objects that changed, or whose desired status changed, are compared again.
	upToDate map[config.Key]comparison
}

// comparison identifies the two sides of a comparison.
type comparison struct {
	resourceVersion string
	value           any
}

// watchedKinds returns the kinds that have a desired status.
func (e *gatewayAPIEvaluator) watchedKinds() map[api.Kind]struct{} { return e.Kinds() }

// evaluate returns the edits of objects whose status differs from the desired one of their
// generation. Objects without one, and of other revisions, are skipped; a status that cannot be
// encoded is logged. again is always 0. An object that was up to date is not compared again until
// it or its desired status changes.
func (e *gatewayAPIEvaluator) evaluate(each func(func(*object))) (due []edit, again time.Duration) {
	now := e.now()
	upToDate := make(map[config.Key]comparison, len(e.upToDate))
	each(func(o *object) {
		k := o.key()
		desired, ok := e.Get(k)
		if !ok || !e.selectsRevision(o.revision) || desired.Generation != o.Generation {
			return
		}
		compared := comparison{o.ResourceVersion, desired.Value}
		if e.upToDate[k] == compared {
			upToDate[k] = compared
			return
		}
		patch, err := o.status.gatewayAPIPatch(desired.Value, e.IsOwn, now)
		switch {
		case err != nil:
			e.log(k, err)
		case patch == nil:
			upToDate[k] = compared
		default:
			due = append(due, edit{object: o, patch: patch, since: now})
		}
	})
	e.upToDate = upToDate
	return due, 0
}

// gatewayAPIPatch returns the fields of the status that differ from the desired ones, or nil if
// none does. Entries of other controllers, by isOwn, stay. It returns an error if value cannot be
// encoded or is of another type than the Gateway API's. An address without a type is an IPAddress.
func (d document) gatewayAPIPatch(value any, isOwn func(controller string) bool, now time.Time) (map[string]any,
	error) {
	desired, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", value, err)
	}
	m := statusMerger{isOwn: isOwn, now: now.UTC().Format(time.RFC3339)}
	var next map[string]any
	switch value.(type) {
	case *gatewayv1.GatewayClassStatus, *gatewayx.MeshStatus:
		next = m.mergeConditions(d, desired, "supportedFeatures")
	case *gatewayv1.GatewayStatus:
		next = m.mergeConditions(d, desired, "addresses", "attachedListenerSets")
		next["listeners"] = m.mergeListeners(d["listeners"], desired["listeners"])
		for _, address := range objectsOf(next["addresses"]) {
			setDefault(address, "type", string(gatewayv1.IPAddressType))
		}
	case *gatewayv1.ListenerSetStatus:
		next = m.mergeConditions(d, desired)
		next["listeners"] = m.mergeListeners(d["listeners"], desired["listeners"])
	case *gatewayv1.RouteStatus, *gatewayx.BackendStatus:
		next = map[string]any{"parents": m.mergeByController(d["parents"], desired["parents"], "parentRef")}
	case *inferencev1.InferencePoolStatus:
		next = map[string]any{"parents": m.mergePoolParents(d["parents"], desired["parents"])}
	case *gatewayv1.PolicyStatus:
		next = map[string]any{"ancestors": m.mergeByController(d["ancestors"], desired["ancestors"], "ancestorRef")}
	default:
		return nil, fmt.Errorf("encode %T: no status of the Gateway API", value)
	}
	maps.DeleteFunc(next, func(field string, x any) bool { return isEqualField(d[field], x) })
	if len(next) == 0 {
		return nil, nil
	}
	return next, nil
}
