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
// levels after the weighted cluster are reversed. It adds a step if there are any changes.
func (x *exchange) requestChanges(w *routev3.WeightedCluster_ClusterWeight) [][]HeaderChange {
	r, vh, c := x.routed.route, x.routed.host, x.routed.config
	levels := [][]HeaderChange{
		headerChanges(w.GetRequestHeadersToAdd(), w.GetRequestHeadersToRemove()),
		headerChanges(r.GetRequestHeadersToAdd(), r.GetRequestHeadersToRemove()),
		headerChanges(vh.GetRequestHeadersToAdd(), vh.GetRequestHeadersToRemove()),
		headerChanges(c.GetRequestHeadersToAdd(), c.GetRequestHeadersToRemove()),
	}
	if c.GetMostSpecificHeaderMutationsWins() {
		slices.Reverse(levels[1:])
	}
	if text := changesText(slices.Concat(levels...)); text != "" {
		x.addStep(
			Step{Stage: StageHeaders, Resource: w.GetName(), Decided: "of the request: " + text, By: x.routeObjects(r)},
		)
	}
	return levels
}

// responseChanges returns the changes of the response headers in the order of application: cluster
// weight, route, virtual host, route configuration. If the most specific mutations win, the last
// three are reversed. mesh.LostRequestHeader is omitted. It adds a step if there are any changes.
func (x *exchange) responseChanges(w *routev3.WeightedCluster_ClusterWeight) []HeaderChange {
	r, vh, c := x.routed.route, x.routed.host, x.routed.config
	levels := [][]HeaderChange{
		headerChanges(w.GetResponseHeadersToAdd(), w.GetResponseHeadersToRemove()),
		headerChanges(r.GetResponseHeadersToAdd(), r.GetResponseHeadersToRemove()),
		headerChanges(vh.GetResponseHeadersToAdd(), vh.GetResponseHeadersToRemove()),
		headerChanges(c.GetResponseHeadersToAdd(), c.GetResponseHeadersToRemove()),
	}
	if c.GetMostSpecificHeaderMutationsWins() {
		slices.Reverse(levels[1:])
	}
	// Proxies use this header among themselves to report lost requests. It is no header of an
	// application, so it is omitted.
	all := slices.DeleteFunc(
		slices.Concat(levels...),
		func(c HeaderChange) bool { return c.Name == mesh.LostRequestHeader },
	)
	if text := changesText(all); text != "" {
		x.addStep(
			Step{
				Stage:    StageHeaders,
				Resource: w.GetName(),
				Decided:  "of the response: " + text,
				By:       x.routeObjects(r),
			},
		)
	}
	return all
}

// headerChanges returns the changes of one level in Envoy's order: removals, replacements, then
// additions, each in the given order. Names are in lower case. It omits all changes to an empty
// value without keep_empty_value.
func headerChanges(add []*corev3.HeaderValueOption, remove []string) []HeaderChange {
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

// changeOf returns the kind of a header change: doSet, doDefault (add if absent), doReplace
// (overwrite if present) or doAdd. The deprecated field append overrides append_action: true is
// doAdd, false is doSet.
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

// applyChanges applies the header changes of one level to r. Format strings are evaluated against
// the request before these changes.
func (r *Request) applyChanges(changes []HeaderChange) {
	before := r.clone()
	for _, c := range changes {
		r.Header = ApplyChange(r.Header, HeaderChange{c.Do, c.Name, expandFormat(c.Value, before)})
	}
}

// setHeader replaces all lines of a header with one value.
func (r *Request) setHeader(name, value string) {
	r.Header = ApplyChange(r.Header, HeaderChange{doSet, name, value})
}

// ApplyChange returns headers with the change applied; names are compared regardless of case.
// doRemove removes all headers of the name, doSet replaces them, doAdd appends one. doDefault only
// adds a missing header, doReplace only replaces existing ones. It may modify the slice, so callers
// must use only the result.
func ApplyChange(headers []Header, c HeaderChange) []Header {
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

// expandFormat replaces Envoy's command %REQ(name?other)% in value by the request's field, and "%%"
// by "%". All other commands, including %REQ with a length, and an unclosed "%" remain unchanged.
func expandFormat(value string, r *Request) string {
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

// requestField returns the first header of names that the request has, or "". names are separated
// by "?".
func requestField(names string, r *Request) string {
	for name := range strings.SplitSeq(names, "?") {
		if v, ok := r.headerValue(strings.ToLower(name)); ok {
			return v
		}
	}
	return ""
}

// changesText returns the changes in one line, separated by commas: "set NAME: VALUE", "remove
// NAME".
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

// removeHeader deletes all lines of a header.
func (r *Request) removeHeader(name string) {
	r.Header = slices.DeleteFunc(r.Header, func(h Header) bool { return strings.EqualFold(h.Name, name) })
}
