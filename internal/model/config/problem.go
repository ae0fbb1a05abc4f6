package config

import (
	"cmp"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// Severity is the effect of a Problem on its object.
type Severity string

const (
	// Error means that the object, or the part that Field names, is not used.
	Error Severity = "error"
	// Warning means that the object is used, but part of it does not have the effect that it
	// describes.
	Warning Severity = "warning"
)

// Problem is a mistake in a user's object, or a part of it that meshpilot does not honour. It is
// logged, listed at /debug/problemz, and may be reported in the object's status and in Events.
type Problem struct {
	// Key of the object. It is zero if the key could not be read (see Origin).
	Key Key
	// Field is the path inside the object in the API's JSON names:
	// "spec.http[0].route[1].destination.subset".
	Field string
	// Reason describes the mistake for users. It follows Field in messages, so it need not be a
	// complete sentence: "is required".
	Reason   string
	Severity Severity
	// Origin is the position of Field, for objects from files: "reviews.yaml#2:17:5" (file, document,
	// line, column), or without a column that of the object (Meta.Origin).
	Origin string
	// Code is the stable code of the message. If it is empty, see MessageCode.
	Code code.Code
	// Conflict is the other object, if the Problem is a conflict of two objects. Otherwise it is zero.
	Conflict Key
}

// MessageCode returns Code. If that is empty, the Problem is about the object alone: the result is
// code.SchemaValidationError for an Error, and code.SchemaWarning for a Warning.
func (p Problem) MessageCode() code.Code {
	switch {
	case p.Code != "":
		return p.Code
	case p.Severity == Error:
		return code.SchemaValidationError
	default:
		return code.SchemaWarning
	}
}

// String returns the object with its origin, the field if there is one, and the reason, in one line
// for logs. Severity and Code are not in it.
func (p Problem) String() string {
	s := p.subjectText()
	if p.Field != "" {
		s += ": " + p.Field
	}
	return s + ": " + p.Reason
}

// subjectText returns the object that the Problem is about, with its origin. If the Key is zero, it
// returns the source or file, or "unreadable object" with its position.
func (p Problem) subjectText() string {
	what := p.Key.String()
	if p.Key == (Key{}) {
		if what = "unreadable object"; p.Origin != "" && !strings.Contains(p.Origin, "#") {
			return p.Origin
		}
	}
	if p.Origin != "" {
		what += " (" + p.Origin + ")"
	}
	return what
}

// Compare orders Problems by object, field, origin, reason and severity.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(p.Key.Compare(o.Key), cmp.Compare(p.Field, o.Field), cmp.Compare(p.Origin, o.Origin),
		cmp.Compare(p.Reason, o.Reason), cmp.Compare(p.Severity, o.Severity))
}
