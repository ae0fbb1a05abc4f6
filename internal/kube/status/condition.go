package status

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Reconciled is the type of the condition that says whether an object is in use everywhere. It is Istio's name.
const Reconciled = "Reconciled"

// The reasons of Reconciled.
const (
	// UpToDate: all proxies have it (True).
	UpToDate = "UpToDate"
	// Distributing: some proxies have not acknowledged it yet (Unknown).
	Distributing = "Distributing"
	// Invalid: it is not in use (False).
	Invalid = "Invalid"
	// PartlyInvalid: a part of it is not in use (False).
	PartlyInvalid = "PartlyInvalid"
	// RefusedByProxies: proxies refuse what it shapes, and are served what they had before, or nothing (False).
	RefusedByProxies = "RefusedByProxies"
)

// Count is how many proxies an object concerns, and how many of them have acknowledged it.
type Count struct{ Proxies, Acknowledged int }

func (c Count) add(o Count) Count {
	return Count{c.Proxies + o.Proxies, c.Acknowledged + o.Acknowledged}
}

// all says that nobody is waited for.
func (c Count) all() bool { return c.Acknowledged >= c.Proxies }

// String is Istio's wording, which tools look for.
func (c Count) String() string {
	return fmt.Sprintf("%d/%d proxies up to date.", c.Acknowledged, c.Proxies)
}

// verdict is what is to be said of one generation of an object.
type verdict struct {
	generation int64
	status     string // "True", "False", "Unknown"
	reason     string
	// progress is the part of the message that counts, problems what comes behind it.
	progress string
	problems string
	messages []message
}

func (v verdict) message() string { return strings.TrimSpace(v.progress + " " + v.problems) }

// fault gives the verdict on an object of which something is wrong, if there is anything that makes it False. inUse says that
// the rest of it is in use.
func fault(inUse bool, found, refused []config.Problem) (verdict, bool) {
	v := verdict{messages: messagesOf(found, refused)}
	errors := only(config.Error, found)
	switch {
	case len(errors) > 0 && inUse:
		v.reason = PartlyInvalid
	case len(errors) > 0:
		v.reason = Invalid
	default:
		if errors = only(config.Error, refused); len(errors) == 0 {
			return v, false
		}
		v.reason = RefusedByProxies
	}
	v.status, v.problems = "False", text(errors)
	if warnings := text(only(config.Warning, found, refused)); warnings != "" {
		v.problems += "; warnings: " + warnings
	}
	v.problems = bounded(v.problems)
	return v, true
}

// sound gives the verdict on an object in use.
func sound(c Count, found, refused []config.Problem) verdict {
	v := verdict{status: "True", reason: UpToDate, progress: c.String(), messages: messagesOf(found, refused)}
	if !c.all() {
		v.status, v.reason = "Unknown", Distributing
	}
	if warnings := text(only(config.Warning, found, refused)); warnings != "" {
		v.problems = bounded("Warnings: " + warnings)
	}
	return v
}

func only(s config.Severity, lists ...[]config.Problem) []config.Problem {
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

// maxProblems bounds how many Problems a message tells of, maxMessage its bytes. The rest is at /debug/problemz.
const (
	maxProblems = 5
	maxMessage  = 2048
)

// text names fields and reasons.
func text(list []config.Problem) string {
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

// bounded cuts a text between characters.
func bounded(s string) string {
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
