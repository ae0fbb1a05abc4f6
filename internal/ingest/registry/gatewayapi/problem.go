package gatewayapi

import (
	"regexp"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// fieldPath matches the path of a field at the start of a message.
var fieldPath = regexp.MustCompile(`^[a-z][A-Za-z]*([.\[][A-Za-z0-9]+\]?)*$`)

// newProblem returns the Problem of a failed check of a part of an object; part is the path of the
// part, or "" for the whole object. A path and ": " at the start of v.message become the Problem's
// field: relative to the part, unless the path starts with "spec.". The rest is the reason, after
// v.reason if that is set.
func newProblem(object *config.Config, part string, severity config.Severity, v verdict) config.Problem {
	p := config.Problem{
		Code:     code.RouteNotConverted,
		Key:      object.Key,
		Field:    part,
		Severity: severity,
		Origin:   object.Origin,
		Reason:   v.message,
	}
	if path, rest, found := strings.Cut(v.message, ": "); found && fieldPath.MatchString(path) {
		p.Reason = rest
		switch {
		case part == "", strings.HasPrefix(path, "spec."):
			p.Field = path
		default:
			p.Field = part + "." + path
		}
	}
	if v.reason != "" {
		p.Reason = v.reason + ": " + p.Reason
	}
	return p
}
