package scorecard

import (
	"fmt"
	"time"
)

// A Stamp is the time and the version of a run.
type Stamp struct {
	Time   time.Time
	Commit string
	Size   string
	// Load says how busy the machine was before the run.
	Load string
}

func (s Stamp) String() string {
	text := fmt.Sprintf("%s, %s, %s", s.Time.UTC().Format(time.DateOnly), s.Size, s.Commit)
	if s.Load != "" {
		text += ", " + s.Load
	}
	return text
}

// peerStamp returns the stamp of a run of another control plane, to which the commit does not
// apply.
func (s Stamp) peerStamp() string {
	return fmt.Sprintf("%s, %s, %s", s.Time.UTC().Format(time.DateOnly), s.Size, s.Load)
}

// Update replaces the rows of the checks whose tests have all run. The result of the peer is kept.
func (d Document) Update(checks []Check, outcomes Outcomes, s Stamp) {
	for _, c := range checks {
		if !isComplete(c.Tests, outcomes) {
			continue
		}
		row := Judge(c, c.Tests, outcomes)
		if row.Result == Passed && (s.Size != "soak" || c.Limits != "") {
			row.Result += AtThisSize
		}
		row.Run, row.Peer = s.String(), d[c.Number].Peer
		d[c.Number] = row
	}
}

// UpdatePeer replaces the peer's results of the checks whose peer tests have all run.
func (d Document) UpdatePeer(checks []Check, outcomes Outcomes, s Stamp) {
	for _, c := range checks {
		tests := PeerTests([]Check{c})
		if !isComplete(tests, outcomes) {
			continue
		}
		judged := Judge(c, tests, outcomes)
		row := d[c.Number]
		row.Peer = fmt.Sprintf("%s; %s; %s (%s)", judged.Result, judged.Size, judged.Measured, s.peerStamp())
		d[c.Number] = row
	}
}

func isComplete(tests []Test, outcomes Outcomes) bool {
	for _, t := range tests {
		if outcomes[Test{Package: t.Package, Name: t.Name}] == nil {
			return false
		}
	}
	return len(tests) > 0
}

// OwnTests returns the tests of the checks.
func OwnTests(checks []Check) []Test {
	var list []Test
	for _, c := range checks {
		list = append(list, c.Tests...)
	}
	return list
}

// PeerTests returns the tests that can run a peer.
func PeerTests(checks []Check) []Test {
	var list []Test
	for _, t := range OwnTests(checks) {
		if t.Peer {
			list = append(list, t)
		}
	}
	return list
}
