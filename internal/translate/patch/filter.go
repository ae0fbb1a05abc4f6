package patch

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

type (
	applyTo      = networking.EnvoyFilter_ApplyTo
	operation    = networking.EnvoyFilter_Patch_Operation
	patchContext = networking.EnvoyFilter_PatchContext
)

// filter is an EnvoyFilter, read.
type filter struct {
	// patches are by their place in the object; those that cannot be applied at all are nil.
	patches  []*patch
	problems []config.Problem
}

// patch is one patch of an EnvoyFilter, read. It is immutable.
type patch struct {
	filter *filter // so that it is held as long as one of its patches
	id     uint64  // its own among all of a Pass
	from   config.Key
	index  int

	applyTo   applyTo
	operation operation
	class     networking.EnvoyFilter_Patch_FilterClass
	context   patchContext
	listener  *networking.EnvoyFilter_ListenerMatch
	route     *networking.EnvoyFilter_RouteConfigurationMatch
	cluster   *networking.EnvoyFilter_ClusterMatch
	// value is shared by all that it is put into, and never changed; nil where something is removed.
	value   proto.Message
	encoded []byte // value
}

// merges says that the patch changes what is there, rather than adding or removing something.
func (p *patch) merges() bool {
	return p.operation == networking.EnvoyFilter_Patch_MERGE || p.replacesLists()
}

func (p *patch) replacesLists() bool {
	return p.operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

func (p *patch) adds() bool { return p.operation == networking.EnvoyFilter_Patch_ADD }

func (p *patch) removes() bool { return p.operation == networking.EnvoyFilter_Patch_REMOVE }

// field is the path of the patch in its object.
func (p *patch) field() string { return fieldOf(p.index) }

func fieldOf(index int) string { return fmt.Sprintf("spec.configPatches[%d]", index) }

// networkFilter is the name of the network filter that the match asks for, "" for any.
func (p *patch) networkFilter() string { return p.listener.GetFilterChain().GetFilter().GetName() }

// httpFilter is the name of the HTTP filter that the match asks for, "" for any.
func (p *patch) httpFilter() string {
	return p.listener.GetFilterChain().GetFilter().GetSubFilter().GetName()
}

// anchor is the name of the filter that the match asks for in the list that the patch works on, "" for any.
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

// anchored says that the match names one element of the list that the patch works on.
func (p *patch) anchored() bool {
	if p.applyTo == networking.EnvoyFilter_HTTP_ROUTE {
		return p.route.GetVhost().GetRoute() != nil
	}
	return p.anchor() != ""
}

// Check gives what is wrong with the patches of an EnvoyFilter whatever they are applied to, without Key and Origin. An
// Error says that the patch is not in use.
func Check(spec *networking.EnvoyFilter) []config.Problem {
	return readFilter(config.Key{}, spec).problems
}

// readFilter reads all patches of an EnvoyFilter.
func readFilter(from config.Key, spec *networking.EnvoyFilter) *filter {
	f := new(filter)
	for i, source := range spec.GetConfigPatches() {
		r := reader{filter: f, at: fieldOf(i)}
		p := r.read(source)
		if p != nil {
			p.from, p.index = from, i
		}
		f.patches = append(f.patches, p)
	}
	return f
}

// reader reads one patch.
type reader struct {
	filter *filter
	at     string
}

func (r reader) problem(s config.Severity, field, reason string) {
	r.filter.problems = append(r.filter.problems, config.Problem{Field: r.at + field, Reason: reason, Severity: s})
}

const noWaypoints = "there are no waypoints, so the patch has no effect"

// read gives the patch; nil if it can never be applied.
func (r reader) read(source *networking.EnvoyFilter_EnvoyConfigObjectPatch) *patch {
	match := source.GetMatch()
	p := &patch{
		filter: r.filter, applyTo: source.GetApplyTo(), operation: source.GetPatch().GetOperation(),
		class: source.GetPatch().GetFilterClass(), context: match.GetContext(),
		listener: match.GetListener(), route: match.GetRouteConfiguration(), cluster: match.GetCluster(),
	}
	switch {
	case newValue(p.applyTo) == nil, p.operation == networking.EnvoyFilter_Patch_INVALID:
		return nil // validation has said so
	case p.applyTo == networking.EnvoyFilter_BOOTSTRAP:
		r.problem(config.Warning, ".applyTo", "the bootstrap is made by pilot-agent and not patched: give the agent an ISTIO_BOOTSTRAP_OVERRIDE file")
	case p.context == networking.EnvoyFilter_WAYPOINT:
		r.problem(config.Warning, ".match.context", noWaypoints)
	}
	if match.GetWaypoint() != nil {
		r.problem(config.Warning, ".match.waypoint", noWaypoints)
	}
	if !p.removes() && !r.value(p, source.GetPatch()) {
		return nil
	}
	if p.applyTo == networking.EnvoyFilter_BOOTSTRAP || !r.possible(p) {
		return nil
	}
	return p
}

// value reads the value of a patch. It gives false where the patch cannot be applied with it.
func (r reader) value(p *patch, source *networking.EnvoyFilter_Patch) bool {
	const at = ".patch.value"
	m, unknown, err := readValue(p.applyTo, source.GetValue())
	if err == nil && !p.merges() {
		if err = check(m); err == nil {
			err = configured(m)
		}
	}
	if err == nil {
		p.encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	}
	if err != nil {
		r.problem(config.Error, at, err.Error())
		return false
	}
	if unknown != nil {
		r.problem(config.Warning, at, unknown.Error()+": left out")
	}
	p.value = m
	return true
}

// possible says whether the operation can do anything on what it is applied to, and gives it the meaning that it has there.
func (r reader) possible(p *patch) bool {
	inserts := slices.Contains([]operation{
		networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER, networking.EnvoyFilter_Patch_INSERT_FIRST,
	}, p.operation)
	replaces := p.operation == networking.EnvoyFilter_Patch_REPLACE
	switch p.applyTo {
	case networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return p.merges() // validation has said so, as of all that has no effect below
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return p.adds() || replaces
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_CLUSTER, networking.EnvoyFilter_VIRTUAL_HOST:
		if inserts { // order means nothing there
			p.operation = networking.EnvoyFilter_Patch_ADD
		}
		return !replaces || p.applyTo == networking.EnvoyFilter_VIRTUAL_HOST
	case networking.EnvoyFilter_HTTP_ROUTE:
		return !replaces
	default: // filters
		if (replaces || p.removes()) && !p.anchored() {
			r.problem(config.Error, ".match.listener", fmt.Sprintf("%s needs the name of a filter to look for", p.operation))
			return false
		}
		return true
	}
}
