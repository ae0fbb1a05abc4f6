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

// told judges objects of one kind by what the newest snapshot says of them alone.
type told struct {
	Facts
	kind api.Kind
	// say gives the parts of the status that differ from what is there, nil if none does.
	say  func(*object) map[string]any
	pace Pace
}

func (j *told) kinds() map[api.Kind]struct{} {
	if _, some := j.Book.kinds()[j.kind]; !some {
		return nil
	}
	return map[api.Kind]struct{}{j.kind: {}}
}

func (j *told) look(each func(func(*object))) (due []edit, again time.Duration) {
	if !j.Book.begun() {
		return nil, j.pace.Count
	}
	each(func(o *object) {
		e, known := j.Book.get(o.key())
		is := j.InUse(o.key())
		switch {
		case !known || e.refused || is == nil:
			return
		case e.generation != o.Generation || e.hash != is.Hash:
			again = j.pace.Count // it is not taken up yet
			return
		}
		if patch := j.say(o); patch != nil {
			due = append(due, edit{object: o, patch: patch, since: e.since})
		}
	})
	return due, again
}

// LeadAddresses writes into ServiceEntries, until the context ends, which addresses their hosts were given (status.addresses of
// networking.istio.io ServiceEntryStatus), for people and tools, and so that hosts keep them. given tells of the newest snapshot. It is
// for the leader of that task.
func (w *Writer) LeadAddresses(ctx context.Context, given func(config.Key) []config.HostAddress) {
	w.tell(ctx, api.ServiceEntry, func(o *object) map[string]any {
		if list := o.status.withAddresses(given(o.key())); list != nil {
			return map[string]any{"addresses": list}
		}
		return nil
	})
}

// LeadIngresses writes into Ingresses, until the context ends, where callers find them (status.loadBalancer). at gives the addresses;
// known is false if it is not known where an Ingress is to be found, or it is not ours: then it stays as it is. It is for the
// leader of that task.
func (w *Writer) LeadIngresses(ctx context.Context, at func(config.Key) (list []networkingv1.IngressLoadBalancerIngress, known bool)) {
	w.tell(ctx, api.Ingress, func(o *object) map[string]any {
		list, known := at(o.key())
		if !known {
			return nil
		}
		return o.status.withLoadBalancer(list)
	})
}

func (w *Writer) tell(ctx context.Context, kind api.Kind, say func(*object) map[string]any) {
	news, end := w.Book.news()
	defer end()
	newWriting(&told{Facts: w.Facts, kind: kind, say: say, pace: w.Pace}, w.Options).run(ctx, news)
}

// withAddresses gives the list of addresses as it should be, nil if it is. What is there stays as long as its host has it; who is
// given none keeps what is there.
func (d document) withAddresses(given []config.HostAddress) []any {
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
		if a := (config.HostAddress{Host: field(m, "host"), Address: field(m, "value")}); missing[a] {
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

// withLoadBalancer gives what is to be changed so that an Ingress is found at some addresses, nil if nothing is.
func (d document) withLoadBalancer(list []networkingv1.IngressLoadBalancerIngress) map[string]any {
	var is struct {
		Ingress []networkingv1.IngressLoadBalancerIngress `json:"ingress"`
	}
	text, err := json.Marshal(d["loadBalancer"])
	if err == nil && json.Unmarshal(text, &is) == nil && (len(is.Ingress) == 0 && len(list) == 0 || reflect.DeepEqual(is.Ingress, list)) {
		return nil
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": list}}
}
