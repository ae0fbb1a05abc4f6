package config

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Fields says which fields of an API message are honoured. Its entries are paths in the API's JSON names without
// indices, "http.match.uri"; an entry stands for everything below it too.
type Fields []string

// Covers says whether a path is honoured: it, or something above it, is listed.
func (f Fields) Covers(path string) bool {
	return slices.ContainsFunc(f, func(x string) bool { return path == x || strings.HasPrefix(path, x+".") })
}

// Unhonoured gives a Warning for every field that is set in the spec and not honoured: the topmost such field of each
// branch. Fields below "spec" have indices: "spec.http[0].mirror".
func (f Fields) Unhonoured(spec proto.Message) []Problem {
	w := &fieldWalk{honoured: f}
	w.message("", "spec", spec.ProtoReflect())
	return w.found
}

type fieldWalk struct {
	honoured Fields
	found    []Problem
}

// message walks the fields that are set. plain is the path as Fields has it, shown the path as a person reads it.
func (w *fieldWalk) message(plain, shown string, m protoreflect.Message) {
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
		w.field(p, s, fd, m.Get(fd))
	}
}

func (w *fieldWalk) field(plain, shown string, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if w.honoured.Covers(plain) {
		return
	}
	if !slices.ContainsFunc(w.honoured, func(x string) bool { return strings.HasPrefix(x, plain+".") }) {
		w.found = append(w.found, Problem{Field: shown, Reason: "this field is not honoured yet", Severity: Warning})
		return
	}
	// Something below is honoured, so look there. Maps are never honoured in part.
	switch {
	case fd.IsList() && fd.Message() != nil:
		for i := range v.List().Len() {
			w.message(plain, fmt.Sprintf("%s[%d]", shown, i), v.List().Get(i).Message())
		}
	case fd.Message() != nil && !fd.IsMap():
		w.message(plain, shown, v.Message())
	}
}

// Leaves gives the paths of all fields of a message type that hold values rather than further fields, in the form of
// Fields. Messages of other packages than the API's (durations, wrappers) are leaves; a type inside itself is not
// followed again. Tests use it to see that no field is forgotten.
func Leaves(m proto.Message) []string {
	return leaves("", m.ProtoReflect().Descriptor(), nil)
}

func leaves(prefix string, d protoreflect.MessageDescriptor, above []protoreflect.FullName) []string {
	var out []string
	fields := d.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := fd.JSONName()
		if prefix != "" {
			path = prefix + "." + path
		}
		sub := fd.Message()
		if sub == nil || fd.IsMap() || !strings.HasPrefix(string(sub.FullName()), "istio.") || slices.Contains(above, sub.FullName()) {
			out = append(out, path)
			continue
		}
		out = append(out, leaves(path, sub, append(slices.Clone(above), d.FullName()))...)
	}
	return out
}
