package mesh

import (
	"cmp"
	"strings"
)

// Labels are the names of the labels by which Istio knows what goes on with endpoints that are about to go. Those that are empty have
// Istio's names; NoLabel is none.
type Labels struct {
	// Session and SessionHeader are labels of a service whose callers come back to the endpoint that they had, which a cookie or a header
	// names (PILOT_PERSISTENT_SESSION_LABEL, PILOT_PERSISTENT_SESSION_HEADER_LABEL).
	Session, SessionHeader string
	// Draining is a label of a workload that is to get no new sessions (PILOT_DRAINING_LABEL).
	Draining string
}

// NoLabel is a name that no label has.
const NoLabel = "-"

// Session is how callers of a service come back to the endpoint that they had: by a cookie or, if there is none, a header, which
// Envoy sets and reads. Endpoints that drain stay known to them. The zero value is not at all.
type Session struct{ Cookie, Path, Header string }

// Kept says whether there are sessions.
func (s Session) Kept() bool { return s != Session{} }

// SessionOf gives the session that a service with these labels has: NAME or NAME:PATH of a cookie, or the name of a header.
func (n Labels) SessionOf(labels map[string]string) Session {
	if name, path, found := strings.Cut(labels[cmp.Or(n.Session, "istio.io/persistent-session")], ":"); name != "" {
		if !found {
			path = "/"
		}
		return Session{Cookie: name, Path: path}
	}
	return Session{Header: labels[cmp.Or(n.SessionHeader, "istio.io/persistent-session-header")]}
}

// HealthOf gives the health that a workload's labels ask for.
func (n Labels) HealthOf(labels map[string]string) Health {
	if labels[cmp.Or(n.Draining, "istio.io/draining")] != "" {
		return Draining
	}
	return Healthy
}
