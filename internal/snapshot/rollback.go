package snapshot

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// undoLog is what an edit has changed in the Builder itself, as it was before, in the order of the changes. All else that an
// edit makes is new: the Builder's current snapshot and its maps (package cow) stay as they were.
type undoLog struct {
	settings    mesh.Settings
	claims      []undoClaims
	workloads   []undoWorkload
	gateways    []undoGateway
	problems    []undoProblems
	addressPlan bool // it was changed, and is rebuilt
}

type undoClaims struct {
	key mesh.ServiceKey
	old []*mesh.Service
}

type undoWorkload struct {
	key workloadKey
	old *mesh.Workload
}

type undoGateway struct {
	key gatewayObjectKey
	old *mesh.GatewayObject
}

type undoProblems struct {
	scope problemScope
	old   []config.Problem
}

// setClaims is claims.set with an entry in the undo log. The other functions of this file are alike.
func (e *edit) setClaims(k mesh.ServiceKey, list []*mesh.Service) {
	e.undo.claims = append(e.undo.claims, undoClaims{k, e.claims.byKey[k]})
	e.claims.set(k, list)
}

func (e *edit) setWorkload(k workloadKey, w *mesh.Workload) {
	e.undo.workloads = append(e.undo.workloads, undoWorkload{k, e.workloads.byNamespace[k.namespace][k]})
	e.workloads.set(k, w)
}

func (e *edit) setGateways(k gatewayObjectKey, g *mesh.GatewayObject) {
	e.undo.gateways = append(e.undo.gateways, undoGateway{k, e.Builder.gateways[k]})
	setOrDelete(e.Builder.gateways, k, g, g == nil)
}

func (e *edit) setProblemList(k problemScope, list []config.Problem) {
	e.undo.problems = append(e.undo.problems, undoProblems{k, e.Builder.problems[k]})
	setOrDelete(e.Builder.problems, k, list, len(list) == 0)
}

// planAddresses is addressPlan.set with an entry in the undo log.
func (e *edit) planAddresses(k mesh.ServiceKey, s *mesh.Service) []mesh.ServiceKey {
	e.undo.addressPlan = true
	return e.addressPlan.set(k, s)
}

func setOrDelete[K comparable, V any](m map[K]V, k K, v V, remove bool) {
	if remove {
		delete(m, k)
	} else {
		m[k] = v
	}
}

// rollback restores the Builder to what it was before the edit. The order is that of the changes reversed, because an edit may
// change one entry twice.
func (e *edit) rollback() {
	b, u := e.Builder, &e.undo
	b.settings = u.settings
	for i := len(u.claims) - 1; i >= 0; i-- {
		b.claims.set(u.claims[i].key, u.claims[i].old)
	}
	for i := len(u.workloads) - 1; i >= 0; i-- {
		b.workloads.set(u.workloads[i].key, u.workloads[i].old)
	}
	for i := len(u.gateways) - 1; i >= 0; i-- {
		setOrDelete(b.gateways, u.gateways[i].key, u.gateways[i].old, u.gateways[i].old == nil)
	}
	for i := len(u.problems) - 1; i >= 0; i-- {
		setOrDelete(b.problems, u.problems[i].scope, u.problems[i].old, len(u.problems[i].old) == 0)
	}
	if u.addressPlan {
		b.rebuildAddressPlan()
	}
}

// rebuildAddressPlan makes the plan again of all services. Which addresses they have is a function of the services alone
// (package vip), so that the plan is what it was.
func (b *Builder) rebuildAddressPlan() {
	b.addressPlan = newAddressPlan(b.options.Allocation)
	e := b.edit()
	for k := range b.claims.byKey {
		b.addressPlan.set(k, e.join(k))
	}
}
