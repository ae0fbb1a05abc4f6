package patch

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

type (
	applyTo      = networking.EnvoyFilter_ApplyTo
	operation    = networking.EnvoyFilter_Patch_Operation
	patchContext = networking.EnvoyFilter_PatchContext
)

// filter is a parsed EnvoyFilter.
type filter struct {
	// patches are by their index in the object; nil if a patch cannot be applied to anything.
	patches  []*patch
	problems []config.Problem
}

// patch is a parsed patch of an EnvoyFilter. It is immutable.
type patch struct {
	filter *filter // so that it stays cached as long as one of its patches
	id     uint64  // unique in a Pass
	from   config.Key
	index  int

	applyTo   applyTo
	operation operation
	class     networking.EnvoyFilter_Patch_FilterClass
	context   patchContext
	listener  *networking.EnvoyFilter_ListenerMatch
	route     *networking.EnvoyFilter_RouteConfigurationMatch
	cluster   *networking.EnvoyFilter_ClusterMatch
	// value is shared by all resources that contain it and never modified; nil for removals.
	value   proto.Message
	encoded []byte // value, encoded
}

// merges reports whether the patch modifies existing elements (MERGE, MERGE_AND_REPLACE_LIST),
// instead of adding, replacing or removing some.
func (p *patch) merges() bool {
	return p.operation == networking.EnvoyFilter_Patch_MERGE || p.replacesLists()
}

// replacesLists reports whether lists of the value replace existing ones, instead of being
// appended.
func (p *patch) replacesLists() bool {
	return p.operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

// adds reports whether the operation is ADD. It returns false for insertions.
func (p *patch) adds() bool { return p.operation == networking.EnvoyFilter_Patch_ADD }

// removes reports whether the operation is REMOVE.
func (p *patch) removes() bool { return p.operation == networking.EnvoyFilter_Patch_REMOVE }

// field returns the path of the patch in the spec of its EnvoyFilter.
func (p *patch) field() string { return fieldOf(p.index) }

// fieldOf returns the path of the patch with an index in the spec of an EnvoyFilter:
// "spec.configPatches[0]".
func fieldOf(index int) string { return fmt.Sprintf("spec.configPatches[%d]", index) }

// networkFilter returns the name of the network filter in the match, or "" for any.
func (p *patch) networkFilter() string { return p.listener.GetFilterChain().GetFilter().GetName() }

// httpFilter returns the name of the HTTP filter in the match, or "" for any.
func (p *patch) httpFilter() string {
	return p.listener.GetFilterChain().GetFilter().GetSubFilter().GetName()
}

// anchor returns the name of the filter in the match that the patch edits or is inserted beside, or
// "" for any. It returns "" for patches of other things than filters.
func (p *patch) anchor() string {
	switch p.applyTo {
	case networking.EnvoyFilter_LISTENER_FILTER:
		return p.listener.GetListenerFilter()
	case networking.EnvoyFilter_NETWORK_FILTER:
		return p.networkFilter()
	case networking.EnvoyFilter_HTTP_FILTER:
		return p.httpFilter()
	default:
		return ""
	}
}

// isAnchored reports whether the match selects elements of the list that the patch edits: filters
// by name, or routes.
func (p *patch) isAnchored() bool {
	if p.applyTo == networking.EnvoyFilter_HTTP_ROUTE {
		return p.route.GetVhost().GetRoute() != nil
	}
	return p.anchor() != ""
}

// Check returns the Problems of an EnvoyFilter's patches that do not depend on resources, without
// Key and Origin; nil if there are none. A patch with an Error is not used.
func Check(spec *networking.EnvoyFilter) []config.Problem {
	return parseFilter(config.Key{}, spec, false).problems
}

// parseFilter parses all patches of an EnvoyFilter. A patch that can never be applied is nil in the
// result. The filter has the Problems, except mistakes that validation reports. dispensable is set if
// proxies may do without the EnvoyFilter (config.RequiredAnnotation): then its HTTP filters with
// config_discovery pass all requests while they have no valid configuration.
func parseFilter(from config.Key, spec *networking.EnvoyFilter, dispensable bool) *filter {
	f := new(filter)
	for i, source := range spec.GetConfigPatches() {
		r := parser{filter: f, at: fieldOf(i), dispensable: dispensable}
		p := r.parsePatch(source)
		if p != nil {
			p.from, p.index = from, i
		}
		f.patches = append(f.patches, p)
	}
	return f
}

// parser parses one patch.
type parser struct {
	filter      *filter
	at          string
	dispensable bool
}

// addProblem adds a Problem of the patch to the filter; field is the path in the patch,
// ".match.context".
func (r parser) addProblem(s config.Severity, field, reason string) {
	r.filter.problems = append(r.filter.problems,
		config.Problem{Code: code.PatchFailed, Field: r.at + field, Reason: reason, Severity: s})
}

const noWaypoints = "waypoints are not supported, so the patch has no effect"

// parsePatch returns the patch, or nil if it can never be applied. It adds Problems to the filter,
// except mistakes that validation reports. A patch of the bootstrap has a Warning, and the result
// is nil. A patch for waypoints has a Warning too; with the context WAYPOINT it is returned, and
// matches nothing.
func (r parser) parsePatch(source *networking.EnvoyFilter_EnvoyConfigObjectPatch) *patch {
	match := source.GetMatch()
	p := &patch{
		filter: r.filter, applyTo: source.GetApplyTo(), operation: source.GetPatch().GetOperation(),
		class: source.GetPatch().GetFilterClass(), context: match.GetContext(),
		listener: match.GetListener(), route: match.GetRouteConfiguration(), cluster: match.GetCluster(),
	}
	switch {
	case newValue(p.applyTo) == nil, p.operation == networking.EnvoyFilter_Patch_INVALID:
		return nil // Validation reports it.
	case p.applyTo == networking.EnvoyFilter_BOOTSTRAP:
		r.addProblem(config.Warning, ".applyTo",
			"the bootstrap is made by pilot-agent and not patched: give the agent an ISTIO_BOOTSTRAP_OVERRIDE file")
	case p.context == networking.EnvoyFilter_WAYPOINT:
		r.addProblem(config.Warning, ".match.context", noWaypoints)
	}
	if match.GetWaypoint() != nil {
		r.addProblem(config.Warning, ".match.waypoint", noWaypoints)
	}
	if !p.removes() && !r.parseValue(p, source.GetPatch()) {
		return nil
	}
	if p.applyTo == networking.EnvoyFilter_BOOTSTRAP || !r.isPossible(p) {
		return nil
	}
	return p
}

// parseValue parses the value of a patch and stores it in p. If the patch cannot be applied with
// it, it adds an Error and returns false. A value that is not merged must be valid alone. Unknown
// fields are left out, with a Warning.
func (r parser) parseValue(p *patch, source *networking.EnvoyFilter_Patch) bool {
	const at = ".patch.value"
	m, unknown, err := parseValue(p.applyTo, source.GetValue())
	if err == nil && !p.merges() {
		if err = check(m); err == nil {
			err = checkConfigured(m)
		}
	}
	if err == nil && r.dispensable {
		err = setPassingDefault(m)
	}
	if err == nil {
		p.encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	}
	if err != nil {
		r.addProblem(config.Error, at, err.Error())
		return false
	}
	if unknown != nil {
		r.addProblem(config.Warning, at, unknown.Error()+": left out")
	}
	p.value = m
	return true
}

// isPossible reports whether the operation has a meaning for the patched type. In types without
// order, it changes an insertion in p to ADD. It adds a Problem only for a replacement or removal
// of filters without a name; validation reports the others. ROUTE_CONFIGURATION can only be merged,
// EXTENSION_CONFIG only added or replaced.
func (r parser) isPossible(p *patch) bool {
	inserts := slices.Contains([]operation{
		networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER,
		networking.EnvoyFilter_Patch_INSERT_FIRST,
	}, p.operation)
	replaces := p.operation == networking.EnvoyFilter_Patch_REPLACE
	switch p.applyTo {
	case networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return p.merges() // Validation reports this and all other operations without effect below.
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return p.adds() || replaces
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN,
		networking.EnvoyFilter_CLUSTER, networking.EnvoyFilter_VIRTUAL_HOST:
		if inserts { // These have no order.
			p.operation = networking.EnvoyFilter_Patch_ADD
		}
		return !replaces || p.applyTo == networking.EnvoyFilter_VIRTUAL_HOST
	case networking.EnvoyFilter_HTTP_ROUTE:
		return !replaces
	default: // filters
		if (replaces || p.removes()) && !p.isAnchored() {
			r.addProblem(config.Error, ".match.listener",
				fmt.Sprintf("%s needs the name of a filter to look for", p.operation))
			return false
		}
		return true
	}
}
