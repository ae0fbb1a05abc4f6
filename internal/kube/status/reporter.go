package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

const (
	// completeReportDuration is how long a fully distributed object stays in the report, so that the
	// leader sees it complete. Others are dropped after incompleteReportDuration.
	completeReportDuration   = time.Minute
	incompleteReportDuration = 10 * time.Minute
	// maxReportedObjects bounds the objects in a report, so that the ConfigMap stays within the API
	// server's limit.
	maxReportedObjects = 3000
)

// reporter writes this replica's report while it does not lead.
type reporter struct {
	Inputs
	client    corev1.CoreV1Interface
	namespace string
	pod       string
	leading   *atomic.Bool
	now       func() time.Time
	timing    Timing
	log       *slog.Logger

	last   report
	exists bool
	owner  types.UID // of the pod, "" while unknown
}

// run updates the report every CountInterval until ctx ends, after FirstReportDelay. Failures are
// logged and retried. At the end it deletes the report, for at most deleteTimeout.
func (r *reporter) run(ctx context.Context) {
	sleepContext(ctx, r.timing.FirstReportDelay)
	for ctx.Err() == nil {
		if err := r.updateReport(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("writing the status report for the leader failed, retrying", "error", err)
			sleepContext(ctx, r.timing.RetryDelay)
		}
		sleepContext(ctx, r.timing.CountInterval)
	}
	if r.exists {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		_ = r.deleteReport(ctx) // otherwise the leader deletes it later
	}
}

// deleteTimeout bounds the deletion of the report at shutdown.
const deleteTimeout = 2 * time.Second

// updateReport writes the report if its content differs or it would soon be considered expired;
// more often while an object is incomplete. It deletes the report if this replica leads, and does
// nothing before the first snapshot. After an error, the state stays as it was, so the next call
// tries again.
func (r *reporter) updateReport(ctx context.Context) error {
	switch {
	case !r.Applied.hasSnapshot():
		return nil
	case r.leading.Load():
		if !r.exists {
			return nil
		}
		return r.deleteReport(ctx)
	}
	next := report{Time: r.now(), Objects: r.countProgress()}
	age := next.Time.Sub(r.last.Time)
	waiting := false
	for _, x := range next.Objects {
		waiting = waiting || !x.isComplete()
	}
	if r.exists && reflect.DeepEqual(next.Objects, r.last.Objects) && age < heartbeat &&
		(!waiting || age < r.timing.ReportInterval) {
		return nil
	}
	if err := r.writeReport(ctx, next); err != nil {
		return err
	}
	r.last, r.exists = next, true
	return nil
}

// countProgress returns the progress, among this replica's proxies, of at most maxReportedObjects
// objects that came within incompleteReportDuration. It omits rejected objects, and ones that have
// been complete for more than completeReportDuration. Such objects are not counted again if the
// last report had them as complete. The result is never nil.
func (r *reporter) countProgress() map[string]progress {
	now := r.now()
	recent := r.Applied.changedSince(now.Add(-incompleteReportDuration))
	keys := make(map[config.Key]struct{}, len(recent))
	for k, e := range recent {
		last, ok := r.last.Objects[k.String()]
		if e.refused || len(keys) == maxReportedObjects ||
			ok && last.Generation == e.generation && last.isComplete() &&
				now.Sub(last.completeSince) > completeReportDuration {
			delete(recent, k)
			continue
		}
		keys[k] = struct{}{}
	}
	out := map[string]progress{}
	if len(keys) == 0 {
		return out
	}
	served, counts := r.Distribution(keys)
	for k := range keys {
		e := recent[k]
		x := progress{
			Generation:   e.generation,
			Proxies:      counts[k].Proxies,
			Acknowledged: counts[k].Acknowledged,
			Served:       e.snapshot != 0 && served >= e.snapshot,
		}
		if x.isComplete() {
			x.completeSince = r.completeSince(k, e, now)
			if now.Sub(x.completeSince) > completeReportDuration {
				continue
			}
		}
		out[k.String()] = x
	}
	return out
}

// completeSince returns the time at which a complete object became complete: now if the last report
// had this generation as incomplete, and the time in that report if it was complete there. If that
// report did not have this generation, it is the time of its arrival.
func (r *reporter) completeSince(k config.Key, e appliedObject, now time.Time) time.Time {
	last, ok := r.last.Objects[k.String()]
	switch {
	case !ok || last.Generation != e.generation:
		return e.since
	case last.isComplete():
		return last.completeSince
	}
	return now
}

// writeReport writes the report to this replica's ConfigMap, which is owned by its pod if that is
// known. It creates the ConfigMap if necessary, and takes over its fields from other managers.
func (r *reporter) writeReport(ctx context.Context, x report) error {
	text, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	name := r.pod + reportSuffix
	metadata := map[string]any{"name": name, "namespace": r.namespace, "labels": map[string]any{reportLabel: "true"}}
	if owner := r.ownerReference(ctx); owner != nil {
		metadata["ownerReferences"] = []metav1.OwnerReference{*owner}
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   metadata,
		"data":       map[string]any{reportField: string(text)},
	})
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	force := true
	_, err = r.client.ConfigMaps(r.namespace).Patch(
		ctx,
		name,
		types.ApplyPatchType,
		body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force},
	)
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", r.namespace, name, err)
	}
	return nil
}

// ownerReference returns this replica's pod as the owner, so that the report is garbage-collected
// if the whole control plane is uninstalled. It returns nil if the pod does not exist or cannot be
// read. The pod's UID is read once and then kept.
func (r *reporter) ownerReference(ctx context.Context) *metav1.OwnerReference {
	if r.owner == "" {
		pod, err := r.client.Pods(r.namespace).Get(ctx, r.pod, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		r.owner = pod.UID
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: r.pod, UID: r.owner}
}

// deleteReport deletes the report and forgets what was in it. It returns an error, and changes
// nothing, if that fails; a missing report is no error.
func (r *reporter) deleteReport(ctx context.Context) error {
	if err := deleteConfigMap(ctx, r.client, r.namespace, r.pod+reportSuffix); err != nil {
		return err
	}
	r.exists, r.last = false, report{}
	return nil
}
