package unread

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Group is a set of variables with one behaviour here.
type Group struct {
	Variables []Variable
	// Here is the fixed behaviour that replaces the variables, or the reason why there is none.
	Here string
}

// Variable is an environment variable of istiod.
type Variable struct {
	Name string
	// Default is istiod's value without the variable; empty for lists, texts and names that have no
	// default.
	Default string
}

// Find returns the variable with a name and its behaviour here, and whether the table has it.
func Find(name string) (v Variable, here string, ok bool) {
	for _, g := range Groups() {
		if i := slices.IndexFunc(g.Variables, func(v Variable) bool { return v.Name == name }); i >= 0 {
			return g.Variables[i], g.Here, true
		}
	}
	return Variable{}, "", false
}

// IsDefault reports whether a value has the same meaning for istiod as its default. An empty value
// has, and so have different spellings of a boolean, a number or a duration.
func (v Variable) IsDefault(value string) bool {
	if value == "" || value == v.Default {
		return true
	}
	return equalAs(strconv.ParseBool, value, v.Default) || equalAs(parseNumber, value, v.Default) ||
		equalAs(time.ParseDuration, value, v.Default)
}

// parseNumber reads a number.
func parseNumber(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// equalAs reports whether parse reads both texts without an error, and as equal values.
func equalAs[T comparable](parse func(string) (T, error), a, b string) bool {
	x, errX := parse(a)
	y, errY := parse(b)
	return errX == nil && errY == nil && x == y
}

// Warnings returns a line for each variable of the table that lookup finds with another value than
// istiod's default, in the order of the table.
func Warnings(lookup func(name string) (string, bool)) []string {
	var list []string
	for _, g := range Groups() {
		for _, v := range g.Variables {
			if value, ok := lookup(v.Name); ok && !v.IsDefault(value) {
				list = append(list, fmt.Sprintf("environment variable %s=%q has no effect: %s", v.Name, value, g.Here))
			}
		}
	}
	return list
}

// Title is the title of the section of docs/ENVIRONMENT.md with this table, which is its last.
const Title = "## Not read, and the fixed behaviour"

// Section returns the section of docs/ENVIRONMENT.md with this table, in Markdown.
func Section() string {
	var b strings.Builder
	b.WriteString(Title + "\n\nThis is the table of `internal/model/unread`, written by `go test ./internal/model/unread -update`. " +
		"If one of them has\nanother value than istiod's default, pilot-discovery warns at start, and `pilotctl check-migration` " +
		"reports it.\n\n| names | here |\n|---|---|\n")
	for _, g := range Groups() {
		names := make([]string, 0, len(g.Variables))
		for _, v := range g.Variables {
			names = append(names, "`"+v.Name+"`")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, ", "), g.Here)
	}
	return b.String()
}
