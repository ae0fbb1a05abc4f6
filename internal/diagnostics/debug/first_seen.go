package debug

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// DatedProblem is a Problem with the time at which it appeared.
type DatedProblem struct {
	Problem
	Since *time.Time `json:"since,omitempty" doc:"When the control plane first found it; not before the start of the control plane."`
}

// firstSeen records when each current Problem was first found. It is safe for concurrent use. The
// Problems of the configuration and the ones that depend on proxies are found at different times,
// so they are recorded separately.
type firstSeen struct {
	mu                     sync.Mutex
	configuration, proxies map[config.Problem]time.Time
}

// record replaces the recorded Problems of the configuration and, unless proxies is nil, the ones
// that depend on proxies. Problems that are not in a new list are forgotten. A Problem that either
// list had keeps its time; a new one is recorded with the time now. Positions of fields are
// ignored. It takes f.mu.
func (f *firstSeen) record(now time.Time, configuration, proxies []config.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	date := func(list []config.Problem) map[config.Problem]time.Time {
		dated := make(map[config.Problem]time.Time, len(list))
		for _, p := range list {
			p = withoutPosition(p)
			if dated[p] = f.find(p); dated[p].IsZero() {
				dated[p] = now
			}
		}
		return dated
	}
	next := date(configuration)
	if proxies != nil {
		f.proxies = date(proxies)
	}
	f.configuration = next
}

// find returns the recorded time of a Problem without position, or zero. The caller holds the lock.
func (f *firstSeen) find(p config.Problem) time.Time {
	if at, known := f.configuration[p]; known {
		return at
	}
	return f.proxies[p]
}

// withoutPosition returns p without its Origin, which changes when lines are added above the
// object. It returns p itself if the object is unknown.
func withoutPosition(p config.Problem) config.Problem {
	if p.Key != (config.Key{}) {
		p.Origin = ""
	}
	return p
}

// RecordConfigurationProblems records when the current Problems of the snapshot and of the analysis
// were first found. It does nothing if Options.Now is nil. Call it after each analysis; without it,
// Problems are dated by the first request that lists them.
func (p *Pages) RecordConfigurationProblems() {
	if p.Now != nil {
		p.seen.record(p.Now(), p.configurationProblems(), nil)
	}
}

// Dated returns the JSON form of a Problem with the time at which it was first found. The time is
// nil if the Problem has been resolved, or Options.Now is not set.
func (p *Pages) Dated(x config.Problem) DatedProblem {
	p.seen.mu.Lock()
	defer p.seen.mu.Unlock()
	dated := DatedProblem{Problem: NewProblem(x)}
	if at := p.seen.find(withoutPosition(x)).UTC(); !at.IsZero() {
		dated.Since = &at
	}
	return dated
}
