package decode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// walk compares a JSON value with the protobuf type into which it is decoded, and records every
// difference with its path. A generic decoder stops at the first difference and does not report its
// path.
type walk struct {
	problems []config.Problem
	// failed is set if one of the problems is an Error.
	failed bool
	// rewrote is set if a value was converted to the form that protojson accepts, or removed.
	rewrote bool
	// stored treats unknown fields as fields of a newer API: they are Warnings and are removed.
	stored bool
	// wrong has the paths of the Errors. These values are removed from the tree, so that the rest of
	// the spec can be decoded.
	wrong map[string]bool
}

// isWrong reports whether an Error was found at a path itself, not only below it.
func (w *walk) isWrong(at *field.Path) bool { return w.failed && w.wrong[at.String()] }

// errorf adds an Error at a path and records the path in w.wrong. It sets w.failed.
func (w *walk) errorf(at *field.Path, format string, args ...any) {
	if w.wrong == nil {
		w.wrong = map[string]bool{}
	}
	w.failed, w.wrong[at.String()] = true, true
	w.problems = append(
		w.problems,
		config.Problem{Field: at.String(), Reason: fmt.Sprintf(format, args...), Severity: config.Error},
	)
}

// checkMessage checks a value of a message type and returns it in the form that protojson accepts;
// objects are changed in place. It adds Errors, and deletes wrong and unknown fields (checkFields).
// Any fields are valid in a Struct or Any, and any value in a Value. A value that is wrong as a
// whole, such as a text for an object, is returned unchanged.
func (w *walk) checkMessage(at *field.Path, v any, d protoreflect.MessageDescriptor) any {
	switch name := d.FullName(); name {
	case "google.protobuf.Duration":
		return w.checkDuration(at, v)
	case "google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value",
		"google.protobuf.UInt64Value",
		"google.protobuf.FloatValue", "google.protobuf.DoubleValue":
		w.checkScalar(at, v, d.Fields().ByName("value"))
		return v
	case "google.protobuf.Value":
		return v
	case "google.protobuf.ListValue":
		if _, ok := v.([]any); !ok {
			w.errorf(at, "must be a list, found %s", describeValue(v))
		}
		return v
	}
	object, ok := v.(map[string]any)
	if !ok {
		w.errorf(at, "must be an object, found %s", describeValue(v))
		return v
	}
	if strings.HasPrefix(string(d.FullName()), "google.protobuf.") { // Struct, Any: any fields
		return v
	}
	w.checkFields(at, object, d)
	return object
}

// checkFields checks the fields of an object, whose keys are JSON names or names of the proto file.
// It adds Errors for fields that are set twice and several of one oneof; unknown fields are handled
// by checkUnknown. null means not set. It replaces values in object by the form that protojson
// accepts, and deletes wrong ones.
func (w *walk) checkFields(at *field.Path, object map[string]any, d protoreflect.MessageDescriptor) {
	set := map[protoreflect.FieldNumber]string{}
	chosen := map[protoreflect.Name]string{} // the field that is set, by oneof
	for _, key := range slices.Sorted(maps.Keys(object)) {
		fd := d.Fields().ByJSONName(key)
		if fd == nil {
			fd = d.Fields().ByTextName(key)
		}
		if fd == nil {
			w.checkUnknown(at.Child(key), object, key, d)
			continue
		}
		if object[key] == nil {
			continue // null means not set
		}
		here := at.Child(fd.JSONName())
		if before, there := set[fd.Number()]; there {
			w.errorf(here, "is set twice, as %q and %q", before, key)
		}
		set[fd.Number()] = key
		if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			if before, there := chosen[oneof.Name()]; there {
				w.errorf(here, "must not be set together with %s", before)
			}
			chosen[oneof.Name()] = fd.JSONName()
		}
		if object[key] = w.checkValue(here, object[key], fd); w.isWrong(here) {
			delete(object, key)
		}
	}
}

// checkUnknown deletes a field that the type does not have and adds an Error, or a Warning if
// w.stored is set. The reason names the successor of a retired field, or a known field with a
// similar name. A Warning sets w.rewrote.
func (w *walk) checkUnknown(at *field.Path, object map[string]any, key string, d protoreflect.MessageDescriptor) {
	r, isRetired := retired.FieldOf(retired.MessageName(string(d.FullName())), key)
	reason := "unknown field" + suggestName(key, fieldNames(d))
	switch {
	case isRetired && w.stored:
		reason = "is retired and has no effect: " + r.Successor
	case isRetired:
		reason = "is retired: " + r.Successor
	case w.stored:
		reason = "is not known to this version of meshpilot, and has no effect" + suggestName(key, fieldNames(d))
	}
	delete(object, key)
	if !w.stored {
		w.errorf(at, "%s", reason)
		return
	}
	w.rewrote = true
	w.problems = append(w.problems, config.Problem{Field: at.String(), Severity: config.Warning, Reason: reason})
}

// checkValue checks the value of a field: a map, a list or a single value. It returns the value in
// the form that protojson accepts, and adds Errors for wrong values. Wrong items of a list become
// empty items, wrong entries of a map are deleted (checkMap). A value of the wrong kind is returned
// unchanged.
func (w *walk) checkValue(at *field.Path, v any, fd protoreflect.FieldDescriptor) any {
	switch {
	case fd.IsMap():
		return w.checkMap(at, v, fd)
	case fd.IsList():
		list, ok := v.([]any)
		if !ok {
			w.errorf(at, "must be a list, found %s", describeValue(v))
			return v
		}
		for i := range list {
			if list[i] = w.checkSingle(at.Index(i), list[i], fd); w.isWrong(at.Index(i)) {
				list[i] = emptyItem(fd) // removing it would change the paths of the next items
			}
		}
		return list
	default:
		return w.checkSingle(at, v, fd)
	}
}

// checkMap adds Errors for invalid keys and values of a map, and deletes these entries; an entry
// with an Error only below its value stays, without the wrong parts. It returns the map, changed in
// place, with the values in the form that protojson accepts. It adds an Error and returns v
// unchanged if v is not a map.
func (w *walk) checkMap(at *field.Path, v any, fd protoreflect.FieldDescriptor) any {
	object, ok := v.(map[string]any)
	if !ok {
		w.errorf(at, "must be an object, found %s", describeValue(v))
		return v
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if reason := mapKeyFault(key, fd.MapKey()); reason != "" {
			w.errorf(at.Key(key), "%s", reason)
		}
		if object[key] = w.checkSingle(at.Key(key), object[key], fd.MapValue()); w.isWrong(at.Key(key)) {
			delete(object, key)
		}
	}
	return object
}

// checkSingle checks a field's value, or one item of a list or map, and returns it in the form that
// protojson accepts. null is an Error, except for google.protobuf.Value.
func (w *walk) checkSingle(at *field.Path, v any, fd protoreflect.FieldDescriptor) any {
	switch {
	case v == nil && !(fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value"):
		w.errorf(at, "must not be null")
		return v
	case fd.Message() != nil:
		return w.checkMessage(at, v, fd.Message())
	default:
		w.checkScalar(at, v, fd)
		return v
	}
}

// checkDuration checks a duration in Go's form and returns it in protobuf's: seconds with a
// fraction. It sets w.rewrote if that differs. For an invalid one, it adds an Error and returns v.
func (w *walk) checkDuration(at *field.Path, v any) any {
	text, ok := v.(string)
	if !ok {
		w.errorf(at, "must be a duration in quotes such as \"1.5s\" or \"1m\", found %s", describeValue(v))
		return v
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.errorf(at, "%q is not a duration such as \"1.5s\" or \"1m\"", text)
		return v
	}
	sign := ""
	if d < 0 {
		sign = "-"
	}
	seconds, nanos := d/time.Second, d%time.Second
	formatted := fmt.Sprintf("%s%d.%09ds", sign, max(seconds, -seconds), max(nanos, -nanos))
	w.rewrote = w.rewrote || formatted != text
	return formatted
}

// fieldNames returns the JSON names of a message's fields.
func fieldNames(d protoreflect.MessageDescriptor) []string {
	names := make([]string, d.Fields().Len())
	for i := range names {
		names[i] = d.Fields().Get(i).JSONName()
	}
	return names
}
