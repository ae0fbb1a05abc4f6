package status

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// message is an entry of validationMessages (istio.analysis.v1alpha1.AnalysisMessageBase), with the
// fields that the CustomResourceDefinitions keep: kind and severity, without a text. The text is in
// the condition.
type message struct{ name, code, level string }

// messagesFor returns the distinct messages for Problems, errors first, or nil without any. They
// differ only in their level, so there are at most two.
func messagesFor(lists ...[]config.Problem) []message {
	var out []message
	for _, list := range lists {
		for _, p := range list {
			m := message{name: "SchemaValidationError", code: "IST0106", level: "WARNING"}
			if p.Severity == config.Error {
				m.level = "ERROR"
			}
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, func(a, b message) int {
		if a.level < b.level {
			return -1
		}
		return 1
	})
	return out
}

// unstructured returns the message in the form of the API server. Its documentation is that of
// IST0106.
func (m message) unstructured() any {
	return map[string]any{
		"type": map[string]any{"name": m.name, "code": m.code}, "level": m.level,
		"documentationUrl": "https://istio.io/latest/docs/reference/config/analysis/ist0106/",
	}
}
