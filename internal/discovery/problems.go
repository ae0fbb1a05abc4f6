package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/analysis"
	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// problems looks for what is wrong in the newest snapshot and at the proxies, beside the path of pushes.
type problems struct {
	log *slog.Logger
	// quarantine gives what proxies refused; it is set before run.
	quarantine func() []push.Quarantined
	in         chan *snapshot.Snapshot // holds the newest one
	again      chan struct{}           // holds one token when something else than the snapshot is new
	list       atomic.Pointer[[]config.Problem]
}

func newProblems(log *slog.Logger) *problems {
	return &problems{log: log, in: make(chan *snapshot.Snapshot, 1), again: make(chan struct{}, 1)}
}

// take hands over a snapshot; one that waits still is dropped for it. It is called by one goroutine.
func (p *problems) take(s *snapshot.Snapshot) {
	select {
	case <-p.in:
	default:
	}
	p.in <- s
}

// look says that something else than the snapshot is new.
func (p *problems) look() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// certificateCheck is how often certificates are looked at that did not change: they expire.
const certificateCheck = time.Hour

func (p *problems) run(ctx context.Context) {
	analyzer := analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh})
	var (
		current      *snapshot.Snapshot
		known        map[config.Problem]bool
		certificates secret.Inspector
	)
	for {
		select {
		case <-ctx.Done():
			return
		case current = <-p.in:
		case <-p.again:
		case <-time.After(certificateCheck):
		}
		if current == nil {
			continue
		}
		list := slices.Concat(analyzer.Analyze(current), certificates.Problems(current, time.Now()), refusals(p.quarantine()))
		slices.SortFunc(list, config.Problem.Compare)
		list = slices.Compact(list)
		p.list.Store(&list)
		known = ingest.LogProblems(p.log, known, list)
	}
}

// refusals tells of each object that a resource in quarantine came from.
func refusals(kept []push.Quarantined) []config.Problem {
	var list []config.Problem
	for _, q := range kept {
		instead := "proxies that have an older one keep it"
		switch {
		case q.Replaced:
			instead = "all proxies keep the one before it"
		case q.Withheld:
			instead = "all proxies go without it"
		}
		for _, k := range q.From {
			list = append(list, config.Problem{
				Key: k, Severity: config.Error,
				Reason: fmt.Sprintf("a proxy refused %s %q, which this object shapes; %s until it changes: %s", api.ShortType(q.TypeURL), q.Name, instead, q.Message),
			})
		}
	}
	return list
}

// current gives what the last look found.
func (p *problems) current() []config.Problem {
	if l := p.list.Load(); l != nil {
		return *l
	}
	return nil
}
