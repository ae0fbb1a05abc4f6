package code

import (
	"slices"
	"sync"
)

// Code identifies the meaning of a message: "IST0101", "MP0001".
type Code string

// Level is the severity of a message, as in istioctl analyze.
type Level string

// The levels, in ascending order.
const (
	Info    Level = "Info"
	Warning Level = "Warning"
	Error   Level = "Error"
)

// Levels returns the levels in ascending order.
func Levels() []Level { return []Level{Info, Warning, Error} }

// AtLeast reports whether l is as severe as o, or more severe. An unknown level is below all
// others.
func (l Level) AtLeast(o Level) bool {
	return slices.Index(Levels(), l) >= slices.Index(Levels(), o)
}

// Entry explains one code.
type Entry struct {
	Code Code
	// Name is the name of Istio's message for IST codes.
	Name  string
	Level Level
	// Meaning describes the mistake and its effect, and Advice what to do. Both are sentences.
	Meaning, Advice string
}

// All returns the table of all codes, sorted by code. Callers must not modify it.
func All() []Entry { return table() }

var table = sync.OnceValue(func() []Entry {
	return slices.Concat(firstEntries(), secondEntries(), ownEntries())
})

// Find returns the entry of a code. The bool is false if the table does not have the code.
func Find(c Code) (Entry, bool) {
	list := table()
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Code == c })
	if i < 0 {
		return Entry{}, false
	}
	return list[i], true
}
