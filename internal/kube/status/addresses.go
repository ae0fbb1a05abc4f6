package status

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// snapshotEvaluator evaluates objects of one kind from the newest snapshot alone.
type snapshotEvaluator struct {
	Inputs
	kind api.Kind
	// patchFor returns the status fields to change, or nil if none differs.
	patchFor func(*object) map[string]any
	timing   Timing
}

// watchedKinds returns the evaluator's kind, or nil while no object of it was applied.
func (j *snapshotEvaluator) watchedKinds() map[api.Kind]struct{} {
	if _, some := j.Applied.knownKinds()[j.kind]; !some {
		return nil
	}
	return map[api.Kind]struct{}{j.kind: {}}
}

// evaluate returns the edits of objects whose applied generation is the one in the API server and
// whose status differs. Others are skipped. again is CountInterval if one of them is not applied
// yet, or no snapshot was published, and otherwise 0.
func (j *snapshotEvaluator) evaluate(each func(func(*object))) (due []edit, again time.Duration) {
	if !j.Applied.hasSnapshot() {
		return nil, j.timing.CountInterval
	}
	each(func(o *object) {
		e, known := j.Applied.lookup(o.key())
		is := j.InUse(o.key())
		switch {
		case !known || e.refused || is == nil:
			return
		case e.generation != o.Generation || e.hash != is.Hash:
			again = j.timing.CountInterval // not applied yet
			return
		}
		if patch := j.patchFor(o); patch != nil {
			due = append(due, edit{object: o, patch: patch, since: e.since})
		}
	})
	return due, again
}

// LeadAddresses writes the addresses allocated for ServiceEntry hosts into their status
// (status.addresses) until ctx ends, for users and so that hosts keep them. given returns the
// addresses in the newest snapshot; if there are none, the status is not changed. Only the leader
// of this task calls it.
func (w *Writer) LeadAddresses(ctx context.Context, given func(config.Key) []config.HostAddress) {
	w.runSnapshotEvaluator(ctx, api.ServiceEntry, func(o *object) map[string]any {
		if list := o.status.addressesWith(given(o.key())); list != nil {
			return map[string]any{"addresses": list}
		}
		return nil
	})
}

// LeadIngresses writes the addresses of Ingresses into their status until ctx ends
// (status.loadBalancer). at returns the addresses; if known is false (unknown address, or another
// controller's Ingress) the status is not changed. Only the leader of this task calls it.
func (w *Writer) LeadIngresses(
	ctx context.Context,
	at func(config.Key) (list []networkingv1.IngressLoadBalancerIngress, known bool),
) {
	w.runSnapshotEvaluator(ctx, api.Ingress, func(o *object) map[string]any {
		list, known := at(o.key())
		if !known {
			return nil
		}
		return o.status.loadBalancerPatch(list)
	})
}

// runSnapshotEvaluator writes the status of one kind until ctx ends. say returns the patch of an
// object's status, or nil if it is up to date.
func (w *Writer) runSnapshotEvaluator(ctx context.Context, kind api.Kind, say func(*object) map[string]any) {
	news, end := w.Applied.subscribe()
	defer end()
	newWriteLoop(&snapshotEvaluator{Inputs: w.Inputs, kind: kind, patchFor: say, timing: w.Timing}, w.Options).run(
		ctx,
		news,
	)
}

// addressesWith returns the new list of addresses, or nil if it is up to date or given is empty.
// Entries stay in their order while given has their host and address, others are removed; missing
// ones are appended.
func (d document) addressesWith(given []config.HostAddress) []any {
	if len(given) == 0 {
		return nil
	}
	missing := map[config.HostAddress]bool{}
	for _, g := range given {
		missing[g] = true
	}
	had, _ := d["addresses"].([]any)
	var list []any
	for _, x := range had {
		m, _ := x.(map[string]any)
		if a := (config.HostAddress{Host: stringField(m, "host"), Address: stringField(m, "value")}); missing[a] {
			delete(missing, a)
			list = append(list, x)
		}
	}
	if len(missing) == 0 && len(list) == len(had) {
		return nil
	}
	for _, g := range given {
		if missing[g] {
			list = append(list, map[string]any{"host": g.Host, "value": g.Address})
		}
	}
	return list
}

// loadBalancerPatch returns the patch that sets the addresses of an Ingress, or nil if they are up
// to date. An empty list removes them. An unreadable status is replaced.
func (d document) loadBalancerPatch(list []networkingv1.IngressLoadBalancerIngress) map[string]any {
	var is struct {
		Ingress []networkingv1.IngressLoadBalancerIngress `json:"ingress"`
	}
	text, err := json.Marshal(d["loadBalancer"])
	if err == nil && json.Unmarshal(text, &is) == nil &&
		(len(is.Ingress) == 0 && len(list) == 0 || reflect.DeepEqual(is.Ingress, list)) {
		return nil
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": list}}
}
