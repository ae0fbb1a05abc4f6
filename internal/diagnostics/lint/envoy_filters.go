package lint

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// specsOf returns an iterator over the objects of a kind and their specs. Objects that cannot be
// decoded are skipped.
func specsOf[T any](r *analysisRun, kind api.Kind) func(yield func(*object, T) bool) {
	return func(yield func(*object, T) bool) {
		for _, o := range r.ofKind(kind) {
			if o.config == nil {
				continue
			}
			if spec, ok := o.config.Spec.(T); ok && !yield(o, spec) {
				return
			}
		}
	}
}

// checkPatches reports operations of EnvoyFilters without effect, and operations relative to other
// filters without a priority. The latter have another code if an earlier patch of the same filter,
// in any EnvoyFilter, is for proxy versions.
func (r *analysisRun) checkPatches() {
	versioned := map[string]bool{} // names of patched filters, in patches for proxy versions
	for o, spec := range specsOf[*networking.EnvoyFilter](r, api.EnvoyFilter) {
		for i, p := range spec.GetConfigPatches() {
			if p.GetPatch() == nil {
				continue
			}
			field := fmt.Sprintf("spec.configPatches[%d].patch.operation", i)
			name := patchedName(p)
			r.checkOperation(o, field, p, spec.GetPriority(), versioned[name])
			if p.GetMatch().GetProxy().GetProxyVersion() != "" {
				versioned[name] = true
			}
		}
	}
}

// checkOperation reports the operation of a patch if it has no effect on the kind of resource.
// Otherwise, if priority is 0, it reports REMOVE, REPLACE, INSERT_BEFORE and INSERT_AFTER, which
// are relative to other filters. versioned is true if an earlier patch of the same filter is for
// proxy versions, and selects another code.
func (r *analysisRun) checkOperation(
	o *object,
	field string,
	p *networking.EnvoyFilter_EnvoyConfigObjectPatch,
	priority int32,
	versioned bool,
) {
	routes := p.ApplyTo == networking.EnvoyFilter_ROUTE_CONFIGURATION || p.ApplyTo == networking.EnvoyFilter_HTTP_ROUTE
	switch operation := p.GetPatch().GetOperation(); operation {
	case networking.EnvoyFilter_Patch_ADD:
		if routes {
			r.report(code.EnvoyFilterUsesAddOperationIncorrectly, o, field, "ADD has no effect on %s", p.ApplyTo)
		}
		return
	case networking.EnvoyFilter_Patch_REMOVE:
		if routes {
			r.report(code.EnvoyFilterUsesRemoveOperationIncorrectly, o, field, "REMOVE has no effect on %s", p.ApplyTo)
			return
		}
	case networking.EnvoyFilter_Patch_REPLACE:
		switch p.ApplyTo {
		case networking.EnvoyFilter_NETWORK_FILTER,
			networking.EnvoyFilter_HTTP_FILTER,
			networking.EnvoyFilter_VIRTUAL_HOST:
		default:
			r.report(
				code.EnvoyFilterUsesReplaceOperationIncorrectly,
				o,
				field,
				"REPLACE has no effect on %s",
				p.ApplyTo,
			)
			return
		}
	case networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER:
	default:
		return
	}
	switch {
	case priority != 0:
	case versioned:
		r.report(
			code.EnvoyFilterUsesRelativeOperationWithProxyVersion,
			o,
			field,
			"is relative to filters of other objects, without a priority, and a patch of the same filter is for proxy versions",
		)
	default:
		r.report(
			code.EnvoyFilterUsesRelativeOperation,
			o,
			field,
			"is relative to filters of other objects, without a priority",
		)
	}
}

// patchedName returns the name in the value of a patch, or else the name of the filter that it
// matches. It returns "" for a patch without a value.
func patchedName(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) string {
	fields := p.GetPatch().GetValue().GetFields()
	if fields == nil {
		return ""
	}
	if name, ok := fields["name"]; ok {
		return name.GetStringValue()
	}
	return p.GetMatch().GetListener().GetFilterChain().GetFilter().GetName()
}
