// Package quarantine decides which resources a scope of proxies is not served, because proxies
// refused them (NACK). It is a pure state machine: it holds no lock, reads no clock and starts no
// goroutine.
//
// In: events of one scope, with the time ([Event]). Out: decisions ([Decision]). A scope is a set
// of proxies that are served the same resources. The caller counts only proxies with a proven
// identity; all others must not reach this package, neither as members nor with what they accept or
// refuse.
//
// # The life of a candidate
//
// A candidate is one version of one resource, or whatever else can be refused. It is offered to the
// whole scope at once.
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
// A refusal starts an observation window. At its end, or when all members have refused the
// candidate, it is quarantined if nobody has accepted it and there is a quorum of witnesses: two
// identities; or two connections, if the whole scope has one identity; or the only connection of
// the scope, which harms only itself. A refusal counts as long as its connection stays in the
// scope.
//
// A quarantine is bounded in time. When it expires the candidate is offered to everybody again, and
// the next quarantine of the same candidate lasts twice as long, up to a bound.
//
// # Invariants
//
// One identity alone never keeps a candidate from a member with another identity. A member that
// accepts a candidate, however late, ends its quarantine for the life of the scope. model_test.go
// tests both with random schedules of hostile members.
//
// Start with [Scope.Step] in scope.go, then quorum.go.
package quarantine
