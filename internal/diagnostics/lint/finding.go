package lint

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// Finding is one message about an object.
type Finding struct {
	Code  code.Code
	Level code.Level
	// Key is the object. It is zero for messages about a file or a mesh setting.
	Key config.Key
	// Field is the path inside of the object, or empty.
	Field   string
	Message string
	// File, Line and Column are the position of the field, or of its nearest parent that exists.
	// Line and Column are 0 if the position is unknown.
	File         string
	Line, Column int
}

// Compare orders findings by file, position, object, code, field and text.
func (f Finding) Compare(o Finding) int {
	return cmp.Or(
		cmp.Compare(f.File, o.File),
		cmp.Compare(f.Line, o.Line),
		cmp.Compare(f.Column, o.Column),
		f.Key.Compare(o.Key),
		cmp.Compare(f.Code, o.Code),
		cmp.Compare(f.Field, o.Field),
		cmp.Compare(f.Message, o.Message),
	)
}

// Object returns the object as in istioctl: "Kind name.namespace", or "" without an object.
func (f Finding) Object() string {
	switch {
	case f.Key == (config.Key{}):
		return ""
	case f.Key.Namespace == "":
		return f.Key.Kind.Name() + " " + f.Key.Name
	default:
		return f.Key.Kind.Name() + " " + f.Key.Name + "." + f.Key.Namespace
	}
}

// Position returns "file:line:column", "file" without a known line, or "".
func (f Finding) Position() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// locator finds positions in a file.
type locator = *decode.Locator

// newFinding returns the finding of a Problem. The level is the level of its code, Warning for an
// unknown code, or Error if the Problem is an Error. The position is the position of the field if
// it can be located in the document, else of the object.
func (r *analysisRun) newFinding(p config.Problem) Finding {
	f := Finding{
		Code:    p.MessageCode(),
		Level:   code.Warning,
		Key:     p.Key,
		Field:   p.Field,
		Message: p.Reason,
		File:    p.Origin,
	}
	if e, ok := code.Find(f.Code); ok {
		f.Level = e.Level
	}
	if p.Severity == config.Error {
		f.Level = code.Error
	}
	o := r.byKey[p.Key]
	if at, ok := decode.ParseOrigin(p.Origin); ok {
		f.File, f.Line, f.Column = r.fileOf(at.File), at.Line, max(at.Column, 1)
		o = r.findObject(p.Key, f.File, at.Document, at.Line)
	}
	if o != nil {
		f.File = o.file
		if f.Line == 0 || p.Field != "" {
			if line, column := r.locators[o.file].Position(o.document, o.within, p.Field); line > 0 {
				f.Line, f.Column = line, column
			}
		}
	}
	return f
}

// fileOf returns the file in an origin, or the origin itself if it names no file that was read. The
// origin of a converted object is the object that it was converted from, a comma, and the file.
func (r *analysisRun) fileOf(origin string) string {
	for file := range r.locators {
		if origin == file || strings.HasSuffix(origin, ", "+file) {
			return file
		}
	}
	return origin
}

// findObject returns the object of a document that begins at or before line. If there are several,
// it is the last one with the key k, or else the last one. It returns nil if there is none.
func (r *analysisRun) findObject(k config.Key, file string, document, line int) *object {
	var best *object
	for _, o := range r.objects {
		if o.file != file || o.document != document || o.line > line {
			continue
		}
		if best == nil || o.key == k || best.key != k {
			best = o
		}
	}
	return best
}

// rootField returns the first two steps of a path without indices, as the position for the other
// object of a conflict: "spec.hosts" for "spec.hosts[1]".
func rootField(field string) string {
	steps := strings.SplitN(field, ".", 3)
	if len(steps) > 2 {
		steps = steps[:2]
	}
	for i, s := range steps {
		steps[i], _, _ = strings.Cut(s, "[")
	}
	return strings.Join(steps, ".")
}
