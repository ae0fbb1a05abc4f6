package explain

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Values of HeaderChange.Do.
const (
	doSet     = "set"
	doAdd     = "add"
	doDefault = "default"
	doReplace = "replace"
	doRemove  = "remove"
)

// requestChanges returns the request header changes level by level, in Envoy's order: weighted
// cluster, route, virtual host, route configuration. With most_specific_header_mutations_wins, the
// levels after the weighted cluster are reversed. It adds a step if there are any.
func (x *exchange) requestChanges(w *routev3.WeightedCluster_ClusterWeight) [][]HeaderChange {
	r, vh, c := x.routed.route, x.routed.host, x.routed.config
	levels := [][]HeaderChange{
		changes(w.GetRequestHeadersToAdd(), w.GetRequestHeadersToRemove()),
		changes(r.GetRequestHeadersToAdd(), r.GetRequestHeadersToRemove()),
		changes(vh.GetRequestHeadersToAdd(), vh.GetRequestHeadersToRemove()),
		changes(c.GetRequestHeadersToAdd(), c.GetRequestHeadersToRemove()),
	}
	if c.GetMostSpecificHeaderMutationsWins() {
		slices.Reverse(levels[1:])
	}
	if text := changesText(slices.Concat(levels...)); text != "" {
		x.step(Step{Stage: StageHeaders, Resource: w.GetName(), Decided: "of the request: " + text, By: x.routeObjects(r)})
	}
	return levels
}

// responseChanges returns the response header changes in the same order. It adds a step if there
// are any.
func (x *exchange) responseChanges(w *routev3.WeightedCluster_ClusterWeight) []HeaderChange {
	r, vh, c := x.routed.route, x.routed.host, x.routed.config
	levels := [][]HeaderChange{
		changes(w.GetResponseHeadersToAdd(), w.GetResponseHeadersToRemove()),
		changes(r.GetResponseHeadersToAdd(), r.GetResponseHeadersToRemove()),
		changes(vh.GetResponseHeadersToAdd(), vh.GetResponseHeadersToRemove()),
		changes(c.GetResponseHeadersToAdd(), c.GetResponseHeadersToRemove()),
	}
	if c.GetMostSpecificHeaderMutationsWins() {
		slices.Reverse(levels[1:])
	}
	// Proxies use this header among themselves to report lost requests. It is no header of an
	// application, so it is omitted.
	all := slices.DeleteFunc(slices.Concat(levels...), func(c HeaderChange) bool { return c.Name == mesh.LostRequestHeader })
	if text := changesText(all); text != "" {
		x.step(Step{Stage: StageHeaders, Resource: w.GetName(), Decided: "of the response: " + text, By: x.routeObjects(r)})
	}
	return all
}

// changes returns the changes of one level in Envoy's order: removals, replacements, additions.
func changes(add []*corev3.HeaderValueOption, remove []string) []HeaderChange {
	var out, added []HeaderChange
	for _, name := range remove {
		out = append(out, HeaderChange{Do: doRemove, Name: strings.ToLower(name)})
	}
	for _, o := range add {
		c := HeaderChange{Name: strings.ToLower(o.GetHeader().GetKey()), Value: o.GetHeader().GetValue()}
		if c.Value == "" && !o.GetKeepEmptyValue() {
			continue // Envoy omits headers without a value
		}
		switch c.Do = changeOf(o); c.Do {
		case doAdd, doDefault:
			added = append(added, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, added...)
}

func changeOf(o *corev3.HeaderValueOption) string {
	if a := o.GetAppend(); a != nil { //nolint:staticcheck // the older field, which EnvoyFilters may still use
		if a.GetValue() {
			return doAdd
		}
		return doSet
	}
	switch o.GetAppendAction() {
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
		return doSet
	case corev3.HeaderValueOption_ADD_IF_ABSENT:
		return doDefault
	case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
		return doReplace
	default:
		return doAdd
	}
}

// apply executes the changes of one level. Format strings are evaluated against the request before
// these changes.
func (r *Request) apply(changes []HeaderChange) {
	before := r.clone()
	for _, c := range changes {
		r.Header = Apply(r.Header, HeaderChange{c.Do, c.Name, formatted(c.Value, before)})
	}
}

// set replaces all lines of a header with one value.
func (r *Request) set(name, value string) {
	r.Header = Apply(r.Header, HeaderChange{doSet, name, value})
}

// Apply returns headers with the change applied. It may modify the slice, so callers must use only
// the result.
func Apply(headers []Header, c HeaderChange) []Header {
	is := func(h Header) bool { return strings.EqualFold(h.Name, c.Name) }
	there := slices.ContainsFunc(headers, is)
	if c.Do == doRemove || c.Do == doSet || c.Do == doReplace && there {
		headers = slices.DeleteFunc(headers, is)
	}
	if c.Do == doRemove || c.Do == doDefault && there || c.Do == doReplace && !there {
		return headers
	}
	return append(headers, Header{c.Name, c.Value})
}

// formatted replaces the Envoy format commands %REQ(name?other)% and "%%" in value. All other
// commands, including %REQ with a length, remain unchanged.
func formatted(value string, r *Request) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(value, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		command, after, closed := strings.Cut(rest, "%")
		switch {
		case !closed:
			b.WriteString("%" + rest)
			return b.String()
		case command == "":
			b.WriteString("%")
		case strings.HasPrefix(command, "REQ(") && strings.HasSuffix(command, ")"):
			b.WriteString(requestField(command[len("REQ("):len(command)-1], r))
		default:
			b.WriteString("%" + command + "%")
		}
		value = after
	}
}

func requestField(names string, r *Request) string {
	for name := range strings.SplitSeq(names, "?") {
		if v, ok := r.value(strings.ToLower(name)); ok {
			return v
		}
	}
	return ""
}

func changesText(list []HeaderChange) string {
	var parts []string
	for _, c := range list {
		if c.Do == doRemove {
			parts = append(parts, "remove "+c.Name)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s", c.Do, c.Name, c.Value))
	}
	return strings.Join(parts, ", ")
}

// remove deletes all lines of a header.
func (r *Request) remove(name string) {
	r.Header = slices.DeleteFunc(r.Header, func(h Header) bool { return strings.EqualFold(h.Name, name) })
}
