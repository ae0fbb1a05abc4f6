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
	// reportFor is how long an object that all proxies have stays in the report, reportUntil how long one that they do not have.
	reportFor   = time.Minute
	reportUntil = 10 * time.Minute
	// maxReported bounds the objects in a report, which must not become larger than an API server takes.
	maxReported = 3000
)

// reporter reports what this replica counts, while it does not lead.
type reporter struct {
	Facts
	client    corev1.CoreV1Interface
	namespace string
	pod       string
	leading   *atomic.Bool
	now       func() time.Time
	pace      Pace
	log       *slog.Logger

	last   report
	exists bool
	owner  types.UID // of the pod, "" until it is known
}

func (r *reporter) run(ctx context.Context) {
	pause(ctx, r.pace.First)
	for ctx.Err() == nil {
		if err := r.turn(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("the leader cannot be told how far objects have come", "error", err)
			pause(ctx, r.pace.Retry)
		}
		pause(ctx, r.pace.Count)
	}
	if r.exists {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		_ = r.remove(ctx) // the leader takes it away in the end
	}
}

// goodbye bounds how long a replica that ends tries to take its report away.
const goodbye = 2 * time.Second

// turn writes the report if it differs from the last one, or if that would soon count as one of a replica that is gone. A replica that
// has come to lead takes its report away.
func (r *reporter) turn(ctx context.Context) error {
	switch {
	case !r.Book.begun():
		return nil
	case r.leading.Load():
		if !r.exists {
			return nil
		}
		return r.remove(ctx)
	}
	next := report{Time: r.now(), Objects: r.count()}
	age := next.Time.Sub(r.last.Time)
	waiting := false
	for _, x := range next.Objects {
		waiting = waiting || !x.done()
	}
	if r.exists && reflect.DeepEqual(next.Objects, r.last.Objects) && age < heartbeat && (!waiting || age < r.pace.Refresh) {
		return nil
	}
	if err := r.write(ctx, next); err != nil {
		return err
	}
	r.last, r.exists = next, true
	return nil
}

// count gives, for each object that changed lately, how many of this replica's proxies have acknowledged it. What was reported as done for
// long enough is left out.
func (r *reporter) count() map[string]reached {
	now := r.now()
	recent := r.Book.recent(now.Add(-reportUntil))
	keys := make(map[config.Key]struct{}, len(recent))
	for k, e := range recent {
		said, ok := r.last.Objects[k.String()]
		if e.refused || len(keys) == maxReported || ok && said.Generation == e.generation && said.done() && now.Sub(e.since) > reportFor {
			delete(recent, k)
			continue
		}
		keys[k] = struct{}{}
	}
	out := map[string]reached{}
	if len(keys) == 0 {
		return out
	}
	served, counts := r.Distribution(keys)
	for k := range keys {
		e := recent[k]
		x := reached{e.generation, counts[k].Proxies, counts[k].Acknowledged, e.snapshot != 0 && served >= e.snapshot}
		if !x.done() || now.Sub(e.since) <= reportFor {
			out[k.String()] = x
		}
	}
	return out
}

func (r *reporter) write(ctx context.Context, x report) error {
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
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{reportField: string(text)},
	})
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	force := true
	_, err = r.client.ConfigMaps(r.namespace).Patch(ctx, name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", r.namespace, name, err)
	}
	return nil
}

// ownerReference names the pod of this replica, with which its report goes if nobody takes it away: no leader does where all of the
// control plane is uninstalled. It is nil for a control plane that is in no pod, or that may not know its own.
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

func (r *reporter) remove(ctx context.Context) error {
	if err := remove(ctx, r.client, r.namespace, r.pod+reportSuffix); err != nil {
		return err
	}
	r.exists, r.last = false, report{}
	return nil
}
