package environment

import "strings"

// later reports the variables of parts that the agent does not have.
func (r *reader) later(e *Environment) {
	// Pod templates set these whether they are needed or not.
	var unused []string
	for _, name := range []string{
		"XDS_AUTH_PROVIDER",
	} {
		if _, ok := r.text(name); ok {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		e.Warnings = append(e.Warnings, "environment variables without effect yet: "+strings.Join(unused, ", "))
	}
}
