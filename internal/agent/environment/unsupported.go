package environment

import "strings"

// reportUnsupported adds one warning to e with the variables that are set but have no effect
// (XDS_AUTH_PROVIDER).
func (r *reader) reportUnsupported(e *Environment) {
	// Pod templates set these whether or not they are needed.
	var unused []string
	for _, name := range []string{
		"XDS_AUTH_PROVIDER",
	} {
		if _, ok := r.lookupText(name); ok {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		e.Warnings = append(e.Warnings, "environment variables without effect: "+strings.Join(unused, ", "))
	}
}
