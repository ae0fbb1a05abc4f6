package rollout

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/quarantine"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Action is an output of a [Rollout]: Generate, Offer, FindAcknowledged or ReportProgress, which
// the caller must carry out, or a record for logs and metrics.
type Action interface{ action() }

// Generate has a generator run. A Generated or GeneratorFailed must follow.
type Generate struct{ Job *Job }

// Offer replaces the ResourceSnapshot of the clients.
type Offer struct {
	Clients   []*Client
	Resources *stream.ResourceSnapshot
	// Changed is when the change behind the ResourceSnapshot was published; zero if it is not the
	// result of a change.
	Changed time.Time
	// Turn is the number of the turn behind the ResourceSnapshot, also if the server-first barrier
	// held it back beyond the end of the turn; 0 if it is not the result of a change. Class is set
	// if the clients are all clients of a class.
	Turn  uint64
	Class bool
}

// FindAcknowledged asks whether any client has acknowledged a resource. An Answered must follow.
type FindAcknowledged struct {
	Question   *Question
	Candidates []Acknowledgement
}

// Acknowledgement is a version of a resource that a client may have acknowledged.
type Acknowledgement struct {
	Client   *Client
	Resource *resource.Resource
}

// Question identifies a FindAcknowledged: it is about a quarantine that will begin unless the
// answer names a client.
type Question struct {
	decision    quarantine.Quarantine
	producer    *producer
	suspensions *suspensions
}

// ReportProgress asks for an Acknowledged of each of the clients that has acknowledged everything
// of its newest ResourceSnapshot.
type ReportProgress struct{ Clients []*Client }

// TurnBegan records that a published snapshot is being brought to the classes.
type TurnBegan struct {
	Turn uint64 // number
	// Snapshot is the published one, Before the one before it, nil for the first.
	Snapshot, Before *snapshot.Snapshot
	Delta            snapshot.Delta
	// Published is when the first of the changes was published.
	Published time.Time
}

// TurnEnded records that all classes have been brought up to a snapshot.
type TurnEnded struct {
	Turn     uint64 // number
	Snapshot uint64 // version
	// Gathered is how long the changes were collected before the turn, Took how long the turn
	// lasted.
	Gathered, Took time.Duration
	// Triggers are the kinds of changes.
	Triggers []string
	// Proxies is the number of offers, Classes the number of classes with clients.
	Proxies, Classes int
	// Resources is the number of resources that were added, changed or removed, by type URL. A
	// resource that is generated for several scopes is counted for each.
	Resources map[string]int
}

// BarrierTimedOut records that clients are updated although servers have not acknowledged their new
// inbound configuration.
type BarrierTimedOut struct{ Servers int }

// TransitionTimedOut records that servers accept only the new mutual TLS mode although clients have
// not acknowledged it.
type TransitionTimedOut struct{ Clients int }

// QuarantineBegan records that a resource is quarantined, or an EnvoyFilter suspended.
type QuarantineBegan struct{ Quarantined Quarantined }

// QuarantineEnded records the end of a quarantine or suspension.
type QuarantineEnded struct {
	TypeURL, Name, Version string
	// Suspended is the EnvoyFilter; zero if the resource itself was quarantined.
	Suspended config.Key
	Reason    quarantine.Reason
}

// QuarantineCounted records the number of quarantined resources and suspended EnvoyFilters that are
// withheld from connected proxies.
type QuarantineCounted struct{ Quarantined int }

func (Generate) action()           {}
func (Offer) action()              {}
func (FindAcknowledged) action()   {}
func (ReportProgress) action()     {}
func (TurnBegan) action()          {}
func (TurnEnded) action()          {}
func (BarrierTimedOut) action()    {}
func (TransitionTimedOut) action() {}
func (QuarantineBegan) action()    {}
func (QuarantineEnded) action()    {}
func (QuarantineCounted) action()  {}
