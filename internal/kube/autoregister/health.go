package autoregister

import (
	"time"
)

// Health is how an application fares, as its agent found out.
type Health struct {
	Healthy bool
	Message string
	// At is when the agent said so.
	At time.Time
}

// healthyCondition is the type of the condition, as Istio has it.
const healthyCondition = "Healthy"

// in gives a list of conditions with the one of this health in it, and says whether that changed the list.
func (h *Health) in(list []any) ([]any, bool) {
	status := "False"
	if h.Healthy {
		status = "True"
	}
	now := h.At.UTC().Format(time.RFC3339)
	is := map[string]any{"type": healthyCondition, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
	if h.Message != "" && !h.Healthy {
		is["message"] = h.Message
	}
	if had := healthIn(list); had != nil && had["status"] == status && said(had) == said(is) {
		return list, false
	}
	return append(withoutHealth(list), is), true
}

func said(condition map[string]any) string {
	message, _ := condition["message"].(string)
	return message
}

// healthIn finds the condition, nil if there is none.
func healthIn(list []any) map[string]any {
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == healthyCondition {
			return c
		}
	}
	return nil
}

// withoutHealth gives the conditions of others.
func withoutHealth(list []any) []any {
	out := make([]any, 0, len(list)+1)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == healthyCondition {
			continue
		}
		out = append(out, c)
	}
	return out
}
