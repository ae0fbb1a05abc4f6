package mesh

import "strings"

// Labels by which Istio knows what goes on with endpoints that are about to go.
const (
	// persistentSession and persistentSessionHeader are labels of a service whose callers come back to the endpoint that they
	// had, which a cookie or a header names (PILOT_PERSISTENT_SESSION_LABEL, PILOT_PERSISTENT_SESSION_HEADER_LABEL).
	persistentSession       = "istio.io/persistent-session"
	persistentSessionHeader = "istio.io/persistent-session-header"
	// draining is a label of a workload that is to get no new sessions (PILOT_DRAINING_LABEL).
	draining = "istio.io/draining"
)

// KeepsSessions says whether a service with these labels has persistent sessions: endpoints that drain stay known to callers.
func KeepsSessions(labels map[string]string) bool {
	return labels[persistentSession] != "" || labels[persistentSessionHeader] != ""
}

// Session is how callers of a service come back to the endpoint that they had: by a cookie or, if there is none, a header, which
// Envoy sets and reads. The zero value is not at all.
type Session struct{ Cookie, Path, Header string }

// SessionOf gives the session that a service with these labels has: NAME or NAME:PATH of a cookie, or the name of a header.
func SessionOf(labels map[string]string) Session {
	if name, path, found := strings.Cut(labels[persistentSession], ":"); name != "" {
		if !found {
			path = "/"
		}
		return Session{Cookie: name, Path: path}
	}
	return Session{Header: labels[persistentSessionHeader]}
}

// HealthOf gives the health that a workload's labels ask for.
func HealthOf(labels map[string]string) Health {
	if labels[draining] != "" {
		return Draining
	}
	return Healthy
}
