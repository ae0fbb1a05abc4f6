package quarantine

import (
	"maps"
	"slices"
)

const (
	// maxWitnesses bounds the identities that are recorded for one candidate. witnessesPerIdentity
	// bounds the connections of each. More witnesses do not change any decision.
	maxWitnesses         = 8
	witnessesPerIdentity = 2
)

// witnesses maps the connections that refused a candidate to their identities.
type witnesses map[string]string

// add records the connection of m as a witness with its identity. It returns w, or a new set if w
// is nil. It ignores a connection if the set has witnessesPerIdentity of its identity, or has
// maxWitnesses other identities.
func (w witnesses) add(m Member) witnesses {
	if w == nil {
		w = witnesses{}
	}
	same, identities := 0, map[string]struct{}{}
	for _, identity := range w {
		identities[identity] = struct{}{}
		if identity == m.Identity {
			same++
		}
	}
	if same < witnessesPerIdentity && (same > 0 || len(identities) < maxWitnesses) {
		w[m.Connection] = m.Identity
	}
	return w
}

// identities returns the distinct identities of the witnesses, sorted.
func (w witnesses) identities() []string {
	return slices.Compact(slices.Sorted(maps.Values(w)))
}

// electorate is the members of a scope and the number of connections of each identity.
type electorate struct {
	members    map[string]string // identity by connection
	identities map[string]int
}

// add adds a member. If its connection is known with another identity, that is replaced. A known
// member is not added again.
func (e *electorate) add(m Member) {
	if old, known := e.members[m.Connection]; known {
		if old == m.Identity {
			return
		}
		e.remove(m.Connection)
	}
	e.members[m.Connection] = m.Identity
	e.identities[m.Identity]++
}

// remove removes the member with this connection, if there is one.
func (e *electorate) remove(connection string) {
	identity, known := e.members[connection]
	if !known {
		return
	}
	delete(e.members, connection)
	if e.identities[identity]--; e.identities[identity] == 0 {
		delete(e.identities, identity)
	}
}

// isQuorum reports whether the witnesses suffice to quarantine, given the present members.
//
// Two identities always suffice. Witnesses of one identity suffice only if no member has another
// identity: then two connections are needed, or the only connection of the scope.
func (e *electorate) isQuorum(w witnesses) bool {
	identities := w.identities()
	switch len(identities) {
	case 0:
		return false
	case 1:
		own := e.identities[identities[0]]
		return own == len(e.members) && len(w) >= min(witnessesPerIdentity, max(own, 1))
	default:
		return true
	}
}
