package status

import (
	"reflect"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// statusMerger merges desired entries into lists of a status that other controllers write too.
// Entries keep their position in the list, so two controllers that write the same list come to
// rest.
type statusMerger struct {
	// isOwn reports whether a controller name is this project's.
	isOwn func(controller string) bool
	// now is the transition time of conditions whose status changes.
	now string
}

// isEqualField reports whether a field of a status has the desired value. A missing field equals
// an empty list.
func isEqualField(current, desired any) bool {
	if isEmptyList(current) && isEmptyList(desired) {
		return true
	}
	return reflect.DeepEqual(current, desired)
}

// isEmptyList reports whether x is nil or a list without entries.
func isEmptyList(x any) bool {
	list, isList := x.([]any)
	return x == nil || isList && len(list) == 0
}

// mergeConditions returns a status with the field conditions merged, and the named fields as
// desired. A named field that is desired to be absent is nil. Current conditions of foreign types
// stay.
func (m *statusMerger) mergeConditions(current document, desired map[string]any, fields ...string) map[string]any {
	next := map[string]any{"conditions": m.conditions(current["conditions"], desired["conditions"], isForeignCondition)}
	for _, f := range fields {
		next[f] = desired[f]
	}
	return next
}

// isForeignCondition reports whether a condition is of a type that neither the Gateway API nor this
// project defines. Conditions of its types that are not desired are outdated.
func isForeignCondition(kind string) bool {
	switch kind {
	case "Accepted", "Programmed", "ResolvedRefs", "Conflicted", "OverlappingTLSConfig", "PartiallyInvalid", "Ready",
		"Scheduled", "SupportedVersion", "AttachedListenerSets", "InsecureFrontendValidationMode":
		return false
	}
	return true
}

// conditions returns the current conditions, with each desired condition in the place of the
// current one of its type, or else at the end. Others are kept if keep returns true for their type.
// A transition time is kept while the status of a condition stays the same. It changes the desired
// conditions.
func (m *statusMerger) conditions(current, desired any, keep func(kind string) bool) any {
	wanted := slices.Clone(objectsOf(desired))
	var next []any
	for _, had := range objectsOf(current) {
		kind := stringField(had, "type")
		i := slices.IndexFunc(wanted, func(c map[string]any) bool { return stringField(c, "type") == kind })
		switch {
		case i >= 0:
			next = append(next, m.condition(had, wanted[i]))
			wanted = slices.Delete(wanted, i, i+1)
		case keep(kind):
			next = append(next, had)
		}
	}
	for _, c := range wanted {
		next = append(next, m.condition(nil, c))
	}
	return next
}

// condition sets the transition time of a desired condition and returns it. The time is that of
// had, the current condition or nil, if the status is the same, and otherwise m.now.
func (m *statusMerger) condition(had, desired map[string]any) map[string]any {
	desired["lastTransitionTime"] = m.now
	if since := stringField(had, "lastTransitionTime"); since != "" && had["status"] == desired["status"] {
		desired["lastTransitionTime"] = since
	}
	return desired
}

// mergeListeners returns the desired listeners, whose conditions keep the transition times of the
// current ones with the same name. Current listeners that are not desired are left out. It changes
// the desired listeners, and sets the default group of their supported kinds.
func (m *statusMerger) mergeListeners(current, desired any) any {
	var next []any
	for _, listener := range objectsOf(desired) {
		name := stringField(listener, "name")
		var had any
		for _, c := range objectsOf(current) {
			if stringField(c, "name") == name {
				had = c["conditions"]
				break
			}
		}
		listener["conditions"] = m.conditions(had, listener["conditions"], noCondition)
		for _, kind := range objectsOf(listener["supportedKinds"]) {
			setDefault(kind, "group", gatewayv1.GroupName)
		}
		next = append(next, listener)
	}
	return next
}

// noCondition returns false: no condition that is not desired is kept.
func noCondition(string) bool { return false }

// setDefault sets a missing field to the value that the API server would set, so that a status that
// was written equals the desired one. It does nothing if object is nil.
func setDefault(object map[string]any, field, value string) {
	if _, set := object[field]; object != nil && !set {
		object[field] = value
	}
}

// mergeByController returns the current entries with the desired ones merged, by the name of the
// controller and the reference to an object in the field ref. Entries of other controllers are
// kept, own ones that are not desired are removed, and missing ones are appended. Desired
// references get the default group and kind. The list is never nil, because it is a required field.
func (m *statusMerger) mergeByController(current, desired any, ref string) any {
	wanted := slices.Clone(objectsOf(desired))
	for _, e := range wanted {
		target, _ := e[ref].(map[string]any)
		setDefault(target, "group", gatewayv1.GroupName)
		setDefault(target, "kind", "Gateway")
	}
	next := []any{}
	for _, had := range objectsOf(current) {
		controller := stringField(had, "controllerName")
		if !m.isOwn(controller) {
			next = append(next, had)
			continue
		}
		i := slices.IndexFunc(wanted, func(e map[string]any) bool {
			return stringField(e, "controllerName") == controller && reflect.DeepEqual(e[ref], had[ref])
		})
		if i < 0 {
			continue
		}
		next = append(next, m.entry(had, wanted[i]))
		wanted = slices.Delete(wanted, i, i+1)
	}
	for _, e := range wanted {
		next = append(next, m.entry(nil, e))
	}
	return next
}

// mergePoolParents returns the current parents of an InferencePool with the desired ones merged, by
// their parentRef. The name of the controller is optional: an entry without one is own if its
// parent is desired, as Istio and definitions before v1.1 store it. Own entries that are not
// desired, and the entry that the definition sets by default, are removed.
func (m *statusMerger) mergePoolParents(current, desired any) any {
	wanted := slices.Clone(objectsOf(desired))
	var next []any
	for _, had := range objectsOf(current) {
		ref, _ := had["parentRef"].(map[string]any)
		controller := stringField(had, "controllerName")
		i := slices.IndexFunc(wanted, func(e map[string]any) bool {
			return reflect.DeepEqual(e["parentRef"],
				had["parentRef"])
		})
		switch {
		case i >= 0 && (controller == "" || m.isOwn(controller)):
			if controller == "" {
				delete(wanted[i], "controllerName")
			}
			next = append(next, m.entry(had, wanted[i]))
			wanted = slices.Delete(wanted, i, i+1)
		case m.isOwn(controller), stringField(ref, "kind") == "Status" && stringField(ref, "name") == "default":
		default:
			next = append(next, had)
		}
	}
	for _, e := range wanted {
		next = append(next, m.entry(nil, e))
	}
	return next
}

// entry sets the conditions of a desired entry, with transition times, and returns it. had is the
// current one, or nil.
func (m *statusMerger) entry(had, desired map[string]any) map[string]any {
	desired["conditions"] = m.conditions(had["conditions"], desired["conditions"], noCondition)
	return desired
}

// objectsOf returns the objects in a list. Entries that are none are left out; for anything but a
// list the result is empty.
func objectsOf(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, x := range items {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
