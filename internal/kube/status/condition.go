package status

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Reconciled is the condition's type, as in Istio: whether the object is applied everywhere.
const Reconciled = "Reconciled"

// The reasons of Reconciled.
const (
	// UpToDate: all proxies have acknowledged it (True).
	UpToDate = "UpToDate"
	// Distributing: some proxies have not acknowledged it yet (Unknown).
	Distributing = "Distributing"
	// Invalid: it is not applied (False).
	Invalid = "Invalid"
	// PartlyInvalid: a part of it is not applied (False).
	PartlyInvalid = "PartlyInvalid"
	// RefusedByProxies: proxies reject the resources generated from it, and keep their previous
	// configuration or none (False).
	RefusedByProxies = "RefusedByProxies"
)

// Count is the number of proxies that an object concerns, and how many of them have acknowledged
// it.
type Count struct{ Proxies, Acknowledged int }

// add returns the sum of both counts.
func (c Count) add(o Count) Count {
	return Count{c.Proxies + o.Proxies, c.Acknowledged + o.Acknowledged}
}

// isComplete reports whether all proxies have acknowledged. Without proxies it is true.
func (c Count) isComplete() bool { return c.Acknowledged >= c.Proxies }

// String returns the count in Istio's wording, which tools parse.
func (c Count) String() string {
	return fmt.Sprintf("%d/%d proxies up to date.", c.Acknowledged, c.Proxies)
}

// conditionState is the condition and the messages for one generation of an object.
type conditionState struct {
	generation int64
	status     string // "True", "False", "Unknown"
	reason     string
	// progress is the first part of the message, with the count; problems is the rest.
	progress string
	problems string
	messages []message
}

// message returns the text of the condition: the progress and the problems, of which either may be
// empty.
func (v conditionState) message() string { return strings.TrimSpace(v.progress + " " + v.problems) }

// faultCondition returns the state of an object with errors, found by this replica or else refused
// by proxies, and false if there are none. inUse means that the rest of the object is applied.
// Warnings are appended to the message.
func faultCondition(inUse bool, found, refused []config.Problem) (conditionState, bool) {
	v := conditionState{messages: messagesFor(found, refused)}
	errors := withSeverity(config.Error, found)
	switch {
	case len(errors) > 0 && inUse:
		v.reason = PartlyInvalid
	case len(errors) > 0:
		v.reason = Invalid
	default:
		if errors = withSeverity(config.Error, refused); len(errors) == 0 {
			return v, false
		}
		v.reason = RefusedByProxies
	}
	v.status, v.problems = "False", joinProblems(errors)
	if warnings := joinProblems(withSeverity(config.Warning, found, refused)); warnings != "" {
		v.problems += "; warnings: " + warnings
	}
	v.problems = truncateMessage(v.problems)
	return v, true
}

// appliedCondition returns the state of an applied object without errors: up to date if c is
// complete, otherwise Unknown. Warnings are appended to the message.
func appliedCondition(c Count, found, refused []config.Problem) conditionState {
	v := conditionState{status: "True", reason: UpToDate, progress: c.String(), messages: messagesFor(found, refused)}
	if !c.isComplete() {
		v.status, v.reason = "Unknown", Distributing
	}
	if warnings := joinProblems(withSeverity(config.Warning, found, refused)); warnings != "" {
		v.problems = truncateMessage("Warnings: " + warnings)
	}
	return v
}

// withSeverity returns the problems of one severity in all lists, in their order, or nil.
func withSeverity(s config.Severity, lists ...[]config.Problem) []config.Problem {
	var out []config.Problem
	for _, list := range lists {
		for _, p := range list {
			if p.Severity == s {
				out = append(out, p)
			}
		}
	}
	return out
}

// maxProblems bounds the problems in a message, maxMessage its bytes. /debug/problemz lists all.
const (
	maxProblems = 5
	maxMessage  = 2048
)

// joinProblems returns the distinct fields and reasons, at most maxProblems, followed by the number
// of the others. It returns "" for an empty list.
func joinProblems(list []config.Problem) string {
	var parts []string
	for _, p := range list {
		part := p.Reason
		if p.Field != "" {
			part = p.Field + ": " + p.Reason
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if more := len(parts) - maxProblems; more > 0 {
		parts = append(parts[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// truncateMessage truncates a message to at most maxMessage bytes at a character boundary, and then
// ends it with an ellipsis.
func truncateMessage(s string) string {
	const mark = "…"
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage - len(mark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
