package snapshot

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// undoLog records the old values of all state that an edit changes in the Builder itself, in the
// order of the changes. Everything else that an edit creates is new, because the current snapshot
// and its maps (package cow) are immutable.
type undoLog struct {
	settings    mesh.Settings
	definitions []undoDefinitions
	workloads   []undoWorkload
	gateways    []undoGateway
	problems    []undoProblems
	addressPlan bool // changed; rollback rebuilds it
}

type undoDefinitions struct {
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

// setDefinitions sets the definitions of a service in the Builder
// (serviceDefinitions.setDefinitions), after it has recorded the old ones in the undo log.
func (e *edit) setDefinitions(k mesh.ServiceKey, list []*mesh.Service) {
	e.undo.definitions = append(e.undo.definitions, undoDefinitions{k, e.definitions.byKey[k]})
	e.definitions.setDefinitions(k, list)
}

// setWorkload stores a workload in the Builder, or deletes it if w is nil, after it has recorded
// the old one in the undo log.
func (e *edit) setWorkload(k workloadKey, w *mesh.Workload) {
	e.undo.workloads = append(e.undo.workloads, undoWorkload{k, e.workloads.workload(k)})
	e.workloads.setWorkload(k, w)
}

// setGateways stores the network gateways of an object in the Builder, or deletes them if g is nil,
// after it has recorded the old ones in the undo log.
func (e *edit) setGateways(k gatewayObjectKey, g *mesh.GatewayObject) {
	e.undo.gateways = append(e.undo.gateways, undoGateway{k, e.Builder.gateways[k]})
	setOrDelete(e.Builder.gateways, k, g, g == nil)
}

// setProblemList stores the Problems of a scope in the Builder, or deletes them if list is empty,
// after it has recorded the old ones in the undo log.
func (e *edit) setProblemList(k problemScope, list []config.Problem) {
	e.undo.problems = append(e.undo.problems, undoProblems{k, e.Builder.problems[k]})
	setOrDelete(e.Builder.problems, k, list, len(list) == 0)
}

// planAddresses calls addressPlan.set, whose result it returns, and marks the plan as changed in
// the undo log.
func (e *edit) planAddresses(k mesh.ServiceKey, s *mesh.Service) []mesh.ServiceKey {
	e.undo.addressPlan = true
	return e.addressPlan.set(k, s)
}

// setOrDelete sets m[k], or deletes it if remove is set.
func setOrDelete[K comparable, V any](m map[K]V, k K, v V, remove bool) {
	if remove {
		delete(m, k)
	} else {
		m[k] = v
	}
}

// rollback restores the Builder to its state before the edit. It undoes the changes in reverse
// order, because an edit may change one entry twice.
func (e *edit) rollback() {
	b, u := e.Builder, &e.undo
	b.settings = u.settings
	for i := len(u.definitions) - 1; i >= 0; i-- {
		b.definitions.setDefinitions(u.definitions[i].key, u.definitions[i].old)
	}
	for i := len(u.workloads) - 1; i >= 0; i-- {
		b.workloads.setWorkload(u.workloads[i].key, u.workloads[i].old)
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

// rebuildAddressPlan rebuilds the plan from all services. Allocated addresses are a function of the
// set of services alone (package vip), so the result equals the plan before the edit.
func (b *Builder) rebuildAddressPlan() {
	b.addressPlan = newAddressPlan(b.options.Allocation)
	e := b.newEdit()
	for k := range b.definitions.byKey {
		b.addressPlan.set(k, e.mergeService(k))
	}
}
