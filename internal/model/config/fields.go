package config

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Fields is a set of honoured fields of an API message. Its entries are paths of JSON names without
// indices, such as "http.match.uri". An entry includes all fields below it.
type Fields []string

// Covers reports whether a path, in the form of Fields, is honoured: the path itself or a parent is
// listed.
func (f Fields) Covers(path string) bool {
	return slices.ContainsFunc(f, func(x string) bool { return path == x || strings.HasPrefix(path, x+".") })
}

// Unhonoured returns a Warning for every field that is set in the spec and is not honoured. Of each
// branch, it returns only the topmost such field. The paths in the Warnings have indices:
// "spec.http[0].mirror".
func (f Fields) Unhonoured(spec proto.Message) []Problem {
	w := &fieldWalk{honoured: f}
	w.walkMessage("", "spec", spec.ProtoReflect())
	return w.found
}

// fieldWalk collects the Warnings of Unhonoured.
type fieldWalk struct {
	honoured Fields
	found    []Problem
}

// walkMessage calls walkField for each field of m that is set, in the order of the fields in the
// message type. plain is the path of m in the form of Fields, "" for the whole spec. shown is the
// path with indices for the Warning, "spec" for the whole spec.
func (w *fieldWalk) walkMessage(plain, shown string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		p, s := fd.JSONName(), shown+"."+fd.JSONName()
		if plain != "" {
			p = plain + "." + p
		}
		w.walkField(p, s, fd, m.Get(fd))
	}
}

// walkField adds a Warning for a field if neither the field nor a field below it is honoured. If
// only fields below it are, it visits a message or each message of a list, but not the values of a
// map. plain is the path without indices, shown the path with them.
func (w *fieldWalk) walkField(plain, shown string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if w.honoured.Covers(plain) {
		return
	}
	if !slices.ContainsFunc(w.honoured, func(x string) bool { return strings.HasPrefix(x, plain+".") }) {
		w.found = append(w.found, Problem{Field: shown, Reason: "this field is not honoured yet", Severity: Warning})
		return
	}
	// A field below this one is honoured, so visit the message. A map is honoured as a whole or not
	// at all.
	switch {
	case fd.IsList() && fd.Message() != nil:
		for i := range v.List().Len() {
			w.walkMessage(plain, fmt.Sprintf("%s[%d]", shown, i), v.List().Get(i).Message())
		}
	case fd.Message() != nil && !fd.IsMap():
		w.walkMessage(plain, shown, v.Message())
	}
}

// LeafPaths returns the paths of all fields of a message type that contain values instead of other
// fields, in the form of Fields. Messages of other packages than the API's (durations, wrappers)
// are leaves. A message type inside itself is a leaf too. Tests use it to verify that no field is
// missing.
func LeafPaths(m proto.Message) []string {
	return leafPaths("", m.ProtoReflect().Descriptor(), nil)
}

// leafPaths returns the paths of all fields below d that are not Istio's messages: JSON names
// joined by dots, after prefix and a dot unless prefix is empty. Maps are leaves, and so are
// messages of a type in above, the types that contain d. d itself is not in above, so a field of
// d's own type is expanded once.
func leafPaths(prefix string, d protoreflect.MessageDescriptor, above []protoreflect.FullName) []string {
	var out []string
	fields := d.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := fd.JSONName()
		if prefix != "" {
			path = prefix + "." + path
		}
		sub := fd.Message()
		if sub == nil || fd.IsMap() || !strings.HasPrefix(string(sub.FullName()), "istio.") ||
			slices.Contains(above, sub.FullName()) {
			out = append(out, path)
			continue
		}
		out = append(out, leafPaths(path, sub, append(slices.Clone(above), d.FullName()))...)
	}
	return out
}
