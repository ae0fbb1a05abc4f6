package quarantine

import "time"

// Candidate is one version of an object that proxies accept or refuse.
type Candidate struct{ Name, Version string }

// Member is one connection of a proxy with a proven identity.
type Member struct{ Connection, Identity string }

// Event is an input of a [Scope]: Joined, Left, Refused, Accepted, Offered or Tick.
type Event interface{ event() }

// Joined adds a connection to the scope. It ends quarantines whose quorum no longer holds.
type Joined struct{ Member }

// Left removes a connection from the scope. It also removes the connection's refusals of candidates
// that are not quarantined.
type Left struct{ Connection string }

// Refused records that a member refused a candidate (NACK). It has no effect if the connection is
// not in the scope or the candidate was accepted before.
type Refused struct {
	Candidate

	Connection string
}

// Accepted records that a member accepted a candidate (ACK). It ends a quarantine of the candidate,
// and the candidate is never quarantined again. It has no effect if the connection is not in the
// scope. The caller may omit it for candidates without a refusal. But before the first refusal of a
// candidate, the caller must report a member that has accepted it.
type Accepted struct {
	Candidate

	Connection string
}

// Offered sets the version of a name that is offered to the scope; "" if the name is
// removed. The state of other versions of the name is deleted, and their quarantine ends.
type Offered struct{ Candidate }

// Tick makes the decisions that depend on time alone: at the end of a window and of a quarantine.
type Tick struct{}

func (Joined) event()   {}
func (Left) event()     {}
func (Refused) event()  {}
func (Accepted) event() {}
func (Offered) event()  {}
func (Tick) event()     {}

// Decision is an output of a [Scope]: Quarantine or Release.
type Decision interface{ decision() }

// Quarantine withholds a candidate from the scope.
type Quarantine struct {
	Candidate
	Status
}

// Release offers a quarantined candidate to the whole scope again.
type Release struct {
	Candidate

	Reason Reason
}

func (Quarantine) decision() {}
func (Release) decision()    {}

// Reason is why a quarantine ended.
type Reason string

// The reasons of a Release.
const (
	// AcceptedByMember means that a member accepted the candidate. It is never quarantined again.
	AcceptedByMember Reason = "accepted"
	// Expired means that the quarantine's time is over. The candidate is offered again, and may be
	// quarantined again.
	Expired Reason = "expired"
	// QuorumLost means that a connection joined and the witnesses are no longer a quorum.
	QuorumLost Reason = "quorum lost"
	// Outdated means that another version of the name is offered, or that the name was removed.
	Outdated Reason = "outdated"
)

// Status describes a quarantine.
type Status struct {
	// Witnesses are the identities that refused the candidate, sorted. Connections is the number of
	// their connections. Both are bounded by maxWitnesses and witnessesPerIdentity.
	Witnesses   []string
	Connections int
	// Since is when the quarantine began. Until is when it expires.
	Since, Until time.Time
	// Attempt is the number of quarantines of the candidate so far, including this one.
	Attempt int
}
