package config

import (
	"cmp"
	"strings"
)

// Severity says what became of the object that a Problem is about.
type Severity string

const (
	// Error says that the object, or the part that Field names, is not in use.
	Error Severity = "error"
	// Warning says that it is in use, but not all of it does what it says.
	Warning Severity = "warning"
)

// Problem is one thing that a user got wrong, or that meshpilot does not honour. It becomes a log line, a line at
// /debug/problemz and, later, a status on the object.
type Problem struct {
	// Key of the object; the zero Key where not even that could be read (see Origin).
	Key Key
	// Field is the path inside the object in the API's JSON names: "spec.http[0].route[1].destination.subset".
	Field    string
	Reason   string
	Severity Severity
	// Origin is where the object was read (Meta.Origin), for objects from files.
	Origin string
}

// String gives one line for logs: severity aside, everything a person needs to find and mend it.
func (p Problem) String() string {
	s := p.subject()
	if p.Field != "" {
		s += ": " + p.Field
	}
	return s + ": " + p.Reason
}

// subject is what the Problem is about: an object, or, where it has no key, a source or file as a whole or an object in one.
func (p Problem) subject() string {
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

// Compare orders Problems by object, origin, field and reason.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(p.Key.Compare(o.Key), cmp.Compare(p.Origin, o.Origin), cmp.Compare(p.Field, o.Field),
		cmp.Compare(p.Reason, o.Reason), cmp.Compare(p.Severity, o.Severity))
}
