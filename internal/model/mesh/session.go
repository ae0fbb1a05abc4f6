package mesh

import (
	"cmp"
	"strings"
)

// LabelNames configures the names of labels for persistent sessions and draining. An empty name is
// replaced with Istio's name; NoLabel disables the feature.
type LabelNames struct {
	// Session and SessionHeader are labels of a service whose callers return to the same endpoint,
	// identified by a cookie or a header (PILOT_PERSISTENT_SESSION_LABEL,
	// PILOT_PERSISTENT_SESSION_HEADER_LABEL).
	Session, SessionHeader string
	// Draining is a label of a workload that must get no new sessions (PILOT_DRAINING_LABEL).
	Draining string
}

// NoLabel is a name that is not a valid label, so no object has it.
const NoLabel = "-"

// Session is how callers of a service return to the same endpoint: by a cookie or, if Cookie is
// empty, by a header, which Envoy sets and reads. Draining endpoints remain available to existing
// sessions. Path is the path of the cookie. The zero value disables sessions.
type Session struct{ Cookie, Path, Header string }

// Enabled reports whether the service has sessions.
func (s Session) Enabled() bool { return s != Session{} }

// SessionOf returns the session of a service with these labels, or zero if it has neither label.
// The value of the cookie label (n.Session, by default istio.io/persistent-session) is NAME, with
// the path "/", or NAME:PATH. The value of the header label (n.SessionHeader, by default
// istio.io/persistent-session-header) is the name of the header. The cookie label takes precedence,
// unless NAME is empty.
func (n LabelNames) SessionOf(labels map[string]string) Session {
	if name, path, found := strings.Cut(labels[cmp.Or(n.Session, "istio.io/persistent-session")], ":"); name != "" {
		if !found {
			path = "/"
		}
		return Session{Cookie: name, Path: path}
	}
	return Session{Header: labels[cmp.Or(n.SessionHeader, "istio.io/persistent-session-header")]}
}

// HealthOf returns Draining if a workload's labels contain the draining label (n.Draining, by
// default istio.io/draining) with any value except "", and Healthy otherwise.
func (n LabelNames) HealthOf(labels map[string]string) Health {
	if labels[cmp.Or(n.Draining, "istio.io/draining")] != "" {
		return Draining
	}
	return Healthy
}
