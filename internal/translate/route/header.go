package route

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// operations are changes to the headers of requests and responses.
type operations struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	// authority is the new host of requests, or "": Envoy does not rewrite the host by header
	// operations.
	authority string
}

// headerOperations translates Headers; nil has no operations. "set" operations come before "add"
// operations, each in the order of names. Headers that Envoy does not let be changed (isReserved)
// are omitted. A host that the request operations set or add is returned in authority instead;
// "set" overrides "add".
func headerOperations(h *networking.Headers) operations {
	var ops operations
	ops.requestAdd, ops.requestRemove = headerChanges(h.GetRequest())
	ops.responseAdd, ops.responseRemove = headerChanges(h.GetResponse())
	for _, values := range []map[string]string{h.GetRequest().GetAdd(), h.GetRequest().GetSet()} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if isAuthority(name) {
				ops.authority = values[name]
			}
		}
	}
	return ops
}

// headerChanges translates the operations on headers of one direction: "set" before "add", each in
// the order of names. Headers that Envoy does not let be changed (isReserved) are omitted.
func headerChanges(h *networking.Headers_HeaderOperations) (add []*corev3.HeaderValueOption, remove []string) {
	add = appendHeaders(nil, h.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add = appendHeaders(add, h.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	for _, name := range h.GetRemove() {
		if !isReserved(name) {
			remove = append(remove, name)
		}
	}
	return add, remove
}

// appendHeaders appends an operation with action for each header in values that is not reserved, in
// the order of names.
func appendHeaders(
	list []*corev3.HeaderValueOption,
	values map[string]string,
	action corev3.HeaderValueOption_HeaderAppendAction,
) []*corev3.HeaderValueOption {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !isReserved(name) {
			list = append(list, &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: name, Value: values[name]}, AppendAction: action,
			})
		}
	}
	return list
}

// isAuthority reports whether a header is the host of a request: "host" in any case, or
// ":authority".
func isAuthority(name string) bool { return strings.EqualFold(name, "host") || name == ":authority" }

// isReserved reports whether Envoy refuses a RouteConfiguration that changes the header:
// pseudo-headers, and "host" in any case.
func isReserved(name string) bool {
	return strings.HasPrefix(name, ":") || strings.EqualFold(name, "host")
}
