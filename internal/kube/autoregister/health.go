package autoregister

import (
	"time"
)

// Health is the health of an application as its agent reported it.
type Health struct {
	Healthy bool
	// Message is the reason if the application is unhealthy, or "".
	Message string
	// At is the time of the report.
	At time.Time
}

// healthyCondition is the condition's type, as in Istio.
const healthyCondition = "Healthy"

// mergeInto returns the conditions with the health condition replaced by h, at the end, and whether
// that changed its status or message. If not, it returns list itself. The times of probe and
// transition are the time of the report. A message is kept only if the workload is not healthy.
func (h *Health) mergeInto(list []any) ([]any, bool) {
	status := "False"
	if h.Healthy {
		status = "True"
	}
	now := h.At.UTC().Format(time.RFC3339)
	condition := map[string]any{
		"type":               healthyCondition,
		"status":             status,
		"lastProbeTime":      now,
		"lastTransitionTime": now,
	}
	if h.Message != "" && !h.Healthy {
		condition["message"] = h.Message
	}
	if had := findHealthCondition(list); had != nil && had["status"] == status &&
		conditionMessage(had) == conditionMessage(condition) {
		return list, false
	}
	return append(withoutHealthCondition(list), condition), true
}

// conditionMessage returns the message of a condition, or "" if it has none.
func conditionMessage(condition map[string]any) string {
	message, _ := condition["message"].(string)
	return message
}

// findHealthCondition returns the health condition in list, or nil if there is none.
func findHealthCondition(list []any) map[string]any {
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == healthyCondition {
			return c
		}
	}
	return nil
}

// withoutHealthCondition returns a copy of the conditions without the health condition.
func withoutHealthCondition(list []any) []any {
	out := make([]any, 0, len(list)+1)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == healthyCondition {
			continue
		}
		out = append(out, c)
	}
	return out
}
