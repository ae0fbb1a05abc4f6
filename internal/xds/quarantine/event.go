package quarantine

import "time"

// Candidate is one version of something that proxies accept or refuse.
type Candidate struct{ Name, Version string }

// Member is one connection of a proxy with a proven identity.
type Member struct{ Connection, Identity string }

// Event is an input of a [Scope]: Joined, Left, Refused, Accepted, Offered or Tick.
type Event interface{ event() }

// Joined adds a connection to the scope. It may end quarantines whose quorum no longer holds.
type Joined struct{ Member }

// Left removes a connection from the scope, and with it the refusals that have not led to a
// quarantine yet.
type Left struct{ Connection string }

// Refused records that a member refused a candidate (NACK). It has no effect if the connection is
// not in the scope or the candidate was accepted before.
type Refused struct {
	Candidate

	Connection string
}

// Accepted records that a member accepted a candidate (ACK). The candidate is never quarantined
// again. The caller need not report what nobody has refused; but before the first refusal of a
// candidate, it must report who has accepted that.
type Accepted struct {
	Candidate

	Connection string
}

// Offered states the version of a name that the scope is to have from now on; "" if the name is
// gone. What is known of other versions of the name is forgotten.
type Offered struct{ Candidate }

// Tick makes decisions that are due by the time alone: the end of a window and of a quarantine.
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
	// AcceptedByMember ends it for good.
	AcceptedByMember Reason = "accepted"
	// Expired offers the candidate again, for the time being.
	Expired Reason = "expired"
	// QuorumLost is the effect of a connection that joined: the witnesses are no longer enough.
	QuorumLost Reason = "quorum lost"
	// Outdated means that another version of the name is offered, or none.
	Outdated Reason = "outdated"
)

// Status describes a quarantine.
type Status struct {
	// Witnesses are the identities that refused the candidate, sorted, and Connections the number
	// of their connections. Both are bounded by maxWitnesses.
	Witnesses   []string
	Connections int
	// Since is when the quarantine began, Until when it expires.
	Since, Until time.Time
	// Attempt counts the quarantines of the candidate, from 1.
	Attempt int
}
