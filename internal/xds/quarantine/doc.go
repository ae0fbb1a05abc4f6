// Package quarantine decides which resources are withheld from a scope of proxies because proxies
// refused them (NACK). It is a pure state machine: it holds no lock, reads no clock and starts no
// goroutine.
//
// The inputs are the events of one scope, with the time ([Event]). The outputs are decisions
// ([Decision]). A scope is a set of proxies that are served the same resources. The caller must
// pass only events of proxies with a proven identity. All other proxies must not reach this
// package, neither as members nor with an ACK or NACK.
//
// # The life of a candidate
//
// A candidate is one version of one resource, or of another object that proxies can refuse. It is
// offered to the whole scope at once.
//
//	         refused                 window over, quorum
//	(known) ────────> observed ────────────────────────────> quarantined
//	                     ^  ^                                     │
//	       refused again │  └──────── another identity joins ─────┤
//	                     │                                        │
//	                 released <───────────── expired ─────────────┘
//
//	any state ── accepted by a member ──> accepted: never quarantined again
//	any state ── another version is offered ──> forgotten
//
// A refusal starts an observation window. The decision is made at its end, or as soon as all
// members have refused the candidate. The candidate is quarantined if no member has accepted it and
// there is a quorum of witnesses. A quorum is one of these: two identities; two connections, if the
// whole scope has one identity; or the only connection of the scope, which harms only itself. A
// refusal is valid as long as its connection stays in the scope.
//
// A quarantine is bounded in time. When it expires, the candidate is offered to all members again.
// The next quarantine of the same candidate lasts twice as long, up to a bound.
//
// # Invariants
//
// One identity alone never withholds a candidate from a member with another identity. A member that
// accepts a candidate, however late, ends its quarantine for the life of the scope. model_test.go
// tests both with random schedules of hostile members.
//
// Start reading with [Scope.Step] in scope.go, then quorum.go.
package quarantine
