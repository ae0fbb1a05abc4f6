package push

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// maxCauses bounds the objects in Change.Causes.
const maxCauses = 100

// ChangeKind is what has changed about an object.
type ChangeKind int

const (
	// EverythingChanged means that anything may differ: the first snapshot, settings of the mesh,
	// or a forced push. There is no object.
	EverythingChanged ChangeKind = iota
	// ObjectChanged means that the object was added, removed or changed.
	ObjectChanged
	// EndpointsChanged means that the endpoints of a service changed, but not the object that
	// defines the service.
	EndpointsChanged
	// SecretAccessChanged means that the access of a service account to Secrets changed.
	SecretAccessChanged
	// TokenKeysChanged means that the keys of a token issuer changed. The object has only a name,
	// the URL.
	TokenKeysChanged
	// WorkloadChanged means that labels, identity or services of a workload changed. The object has
	// only a name, the address.
	WorkloadChanged
)

// String returns the name of the kind in lower case.
func (k ChangeKind) String() string {
	return [...]string{"everything", "object", "endpoints", "secret access", "token keys", "workload"}[k]
}

// Cause is an object whose change was pushed.
type Cause struct {
	Kind   ChangeKind
	Object config.Key
}

// causesOf returns at most maxCauses causes of a turn, sorted by kind and object, and the number of
// those left out; which of the objects are left out is random. EverythingChanged, if d.All, is
// always among them. Endpoints are left out if the object that defines their service also changed,
// workloads if there is any other object; these are not counted.
func causesOf(t rollout.TurnBegan) (list []Cause, more int) {
	d := t.Delta
	if d.All {
		list = append(list, Cause{Kind: EverythingChanged})
	}
	objects := map[config.Key]ChangeKind{}
	for k := range d.Services {
		objects[definitionOf(t, k)] = ObjectChanged
	}
	for k := range d.Configs {
		objects[k] = ObjectChanged
	}
	for k := range d.Endpoints {
		k := definitionOf(t, k)
		if _, known := objects[k]; !known {
			objects[k] = EndpointsChanged
		}
	}
	for a := range d.SecretAccess {
		objects[config.Key{Kind: "ServiceAccount", Namespace: a.Namespace, Name: a.Name}] = SecretAccessChanged
	}
	for k := range d.KeySets {
		objects[config.Key{Name: k.String()}] = TokenKeysChanged
	}
	if len(objects) == 0 {
		for a := range d.Workloads {
			objects[config.Key{Name: a.String()}] = WorkloadChanged
		}
	}
	for k, kind := range objects {
		if len(list) == maxCauses {
			more++
			continue
		}
		list = append(list, Cause{Kind: kind, Object: k})
	}
	slices.SortFunc(list, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			a.Object.Compare(b.Object))
	})
	return list, more
}

// definitionOf returns the object that defines a service after the turn, or before it if the turn
// removes the service. If no object is known, it returns the Key of a Kubernetes Service with the
// host as its name.
func definitionOf(t rollout.TurnBegan, k mesh.ServiceKey) config.Key {
	svc := t.Snapshot.Service(k)
	if svc == nil && t.Before != nil {
		svc = t.Before.Service(k)
	}
	if svc == nil || svc.From == (config.Key{}) {
		return config.Key{Kind: api.Service, Namespace: k.Namespace, Name: string(k.Host)}
	}
	return svc.From
}
