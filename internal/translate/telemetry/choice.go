package telemetry

import (
	"fmt"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// side is the workload's role in traffic.
type side bool

const (
	client side = false
	server side = true
)

// matchesMode reports whether an entry with a mode applies to the side. Other modes than CLIENT and
// SERVER apply to both.
func (s side) matchesMode(m telemetry.WorkloadMode) bool {
	switch m {
	case telemetry.WorkloadMode_CLIENT:
		return s == client
	case telemetry.WorkloadMode_SERVER:
		return s == server
	default:
		return true
	}
}

// layer is one applicable Telemetry object. Later layers add to, and override, earlier ones.
type layer struct {
	key  config.Key
	spec *telemetry.Telemetry
}

// layersOf returns the objects of rows, in their order.
func layersOf(rows memo.List[*config.Config]) []layer {
	var list []layer
	for c := range rows.All {
		list = append(list, layer{c.Key, config.Spec[*telemetry.Telemetry](c)})
	}
	return list
}

// entry is an entry of a Telemetry's accessLogging or metrics that applies to a side.
type entry[T any] struct {
	origin
	value T
	// providers are the entry's own, or else the previous entry's, or else the mesh's defaults.
	providers []named
}

// named is the name of a provider, with the field that contains it.
type named struct {
	origin
	name string
}

// entries returns the entries of all layers for which holds returns true. list returns the entries
// of one object, field is their path in its spec. An entry without providers has the providers of
// the preceding entry, and the first one has defaults. counting has the names of the providers in
// effect: of the innermost object that names any, or else the defaults.
func entries[T interface {
	GetProviders() []*telemetry.ProviderRef
}](
	layers []layer,
	field string,
	list func(*telemetry.Telemetry) []T,
	holds func(T) bool,
	defaults []named,
) (all []entry[T], counting map[string]bool) {
	parents := defaults
	innermost := defaults
	for _, l := range layers {
		var own []named
		for i, value := range list(l.spec) {
			if !holds(value) {
				continue
			}
			at := origin{l.key, fmt.Sprintf("spec.%s[%d]", field, i)}
			if refs := value.GetProviders(); len(refs) > 0 {
				parents = nil
				for j, ref := range refs {
					parents = append(
						parents,
						named{origin{l.key, fmt.Sprintf("%s.providers[%d].name", at.field, j)}, ref.GetName()},
					)
				}
				own = append(own, parents...)
			}
			all = append(all, entry[T]{at, value, parents})
		}
		if len(own) > 0 {
			innermost = own
		}
	}
	counting = map[string]bool{}
	for _, n := range innermost {
		counting[n.name] = true
	}
	return all, counting
}

// defaults returns names, the providers in a field of MeshConfig.defaultProviders, with their
// origin.
func defaults(field string, names []string) []named {
	list := make([]named, len(names))
	for i, n := range names {
		list[i] = named{origin{field: fmt.Sprintf("defaultProviders.%s[%d]", field, i)}, n}
	}
	return list
}
