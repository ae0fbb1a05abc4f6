package status

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"time"
)

// document is an object's status as an API server gave it. Its parts are not changed: with gives a new one.
type document map[string]any

// conditions gives the list as others wrote it.
func (d document) conditions() []any {
	list, _ := d["conditions"].([]any)
	return list
}

// condition finds the first condition of a type, nil if there is none.
func (d document) condition(kind string) map[string]any {
	for _, c := range d.conditions() {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

func field(c map[string]any, name string) string {
	s, _ := c[name].(string)
	return s
}

// generation reads observedGeneration, which istiod writes as a string.
func generation(c map[string]any) int64 {
	switch g := c["observedGeneration"].(type) {
	case int64:
		return g
	case float64:
		return int64(g)
	case json.Number:
		n, _ := g.Int64()
		return n
	case string:
		n, _ := strconv.ParseInt(g, 10, 64)
		return n
	}
	return 0
}

// settled says that the condition is True for a generation: nobody is counted for it any more.
func (d document) settled(generationOf int64) (progress string, ok bool) {
	c := d.condition(Reconciled)
	if c == nil || field(c, "status") != "True" || generation(c) != generationOf {
		return "", false
	}
	return counted.FindString(field(c, "message")), true
}

// counted is the part of a message that Count writes.
var counted = regexp.MustCompile(`^\d+/\d+ proxies up to date\.`)

// with gives the parts of the status that differ once a verdict is in it, as a merge patch has them; nil if none does.
func (d document) with(v verdict, now time.Time) map[string]any {
	patch := map[string]any{}
	if next, differs := d.withCondition(v, now); differs {
		patch["conditions"] = next
	}
	if generation(d) != v.generation {
		patch["observedGeneration"] = v.generation
	}
	var messages []any
	for _, m := range v.messages {
		messages = append(messages, m.raw())
	}
	had, _ := d["validationMessages"].([]any)
	switch {
	case reflect.DeepEqual(had, messages) || len(had) == 0 && len(messages) == 0:
	case len(messages) == 0:
		patch["validationMessages"] = nil
	default:
		patch["validationMessages"] = messages
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// withCondition gives the conditions with that of the verdict, in its place.
func (d document) withCondition(v verdict, now time.Time) (next []any, differs bool) {
	had := d.condition(Reconciled)
	if had != nil && field(had, "status") == v.status && field(had, "reason") == v.reason &&
		field(had, "message") == v.message() && generation(had) == v.generation {
		return nil, false
	}
	since := now.UTC().Format(time.RFC3339)
	if had != nil && field(had, "status") == v.status && field(had, "lastTransitionTime") != "" {
		since = field(had, "lastTransitionTime")
	}
	is := map[string]any{
		"type": Reconciled, "status": v.status, "reason": v.reason, "message": v.message(),
		"observedGeneration": v.generation, "lastTransitionTime": since,
	}
	placed := false
	for _, c := range d.conditions() {
		if m, ok := c.(map[string]any); ok && m["type"] == Reconciled {
			if placed {
				continue
			}
			placed, c = true, is
		}
		next = append(next, c)
	}
	if !placed {
		next = append(next, is)
	}
	return next, true
}
