package status

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"time"
)

// document is the status of an object as the API server returned it. It is immutable.
type document map[string]any

// conditionList returns the conditions, undecoded, or nil if there is no list.
func (d document) conditionList() []any {
	list, _ := d["conditions"].([]any)
	return list
}

// findCondition returns the first condition of a type, which is not a copy, or nil.
func (d document) findCondition(kind string) map[string]any {
	for _, c := range d.conditionList() {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// stringField returns a string field, or "".
func stringField(c map[string]any, name string) string {
	s, _ := c[name].(string)
	return s
}

// observedGeneration returns the field observedGeneration, which istiod writes as a string, or 0 if
// it is missing or invalid.
func observedGeneration(c map[string]any) int64 {
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

// finalProgress returns the progress text of a condition that is True for the generation. ok is
// false if there is none. Such objects are not counted again. The text is empty if the message has
// no count.
func (d document) finalProgress(generationOf int64) (progress string, ok bool) {
	c := d.findCondition(Reconciled)
	if c == nil || stringField(c, "status") != "True" || observedGeneration(c) != generationOf {
		return "", false
	}
	return countPattern.FindString(stringField(c, "message")), true
}

// countPattern matches the text of Count.String in a message.
var countPattern = regexp.MustCompile(`^\d+/\d+ proxies up to date\.`)

// patchFor returns a merge patch of the status fields (conditions, observedGeneration and
// validationMessages) that differ from the state v, or nil if none does. Messages that are no
// longer right are removed.
func (d document) patchFor(v conditionState, now time.Time) map[string]any {
	patch := map[string]any{}
	if next, differs := d.conditionsWith(v, now); differs {
		patch["conditions"] = next
	}
	if observedGeneration(d) != v.generation {
		patch["observedGeneration"] = v.generation
	}
	var messages []any
	for _, m := range v.messages {
		messages = append(messages, m.unstructured())
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

// conditionsWith returns the conditions with the condition Reconciled of v replaced or appended. It
// returns nil and false if status, reason, message and generation are equal already. The transition
// time changes only with the status. Duplicates of the condition are removed when it changes; other
// conditions stay.
func (d document) conditionsWith(v conditionState, now time.Time) (next []any, differs bool) {
	had := d.findCondition(Reconciled)
	if had != nil && stringField(had, "status") == v.status && stringField(had, "reason") == v.reason &&
		stringField(had, "message") == v.message() && observedGeneration(had) == v.generation {
		return nil, false
	}
	since := now.UTC().Format(time.RFC3339)
	if had != nil && stringField(had, "status") == v.status && stringField(had, "lastTransitionTime") != "" {
		since = stringField(had, "lastTransitionTime")
	}
	condition := map[string]any{
		"type": Reconciled, "status": v.status, "reason": v.reason, "message": v.message(),
		"observedGeneration": v.generation, "lastTransitionTime": since,
	}
	placed := false
	for _, c := range d.conditionList() {
		if m, ok := c.(map[string]any); ok && m["type"] == Reconciled {
			if placed {
				continue
			}
			placed, c = true, condition
		}
		next = append(next, c)
	}
	if !placed {
		next = append(next, condition)
	}
	return next, true
}
