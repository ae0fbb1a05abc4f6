package discovery

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/analysis"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// problems looks for what is wrong in the newest snapshot, beside the path of pushes. What proxies refuse is added by the
// debug pages.
type problems struct {
	log  *slog.Logger
	in   chan *snapshot.Snapshot // holds the newest one
	list atomic.Pointer[[]config.Problem]
}

func newProblems(log *slog.Logger) *problems {
	return &problems{log: log, in: make(chan *snapshot.Snapshot, 1)}
}

// take hands over a snapshot; one that waits still is dropped for it. It is called by one goroutine.
func (p *problems) take(s *snapshot.Snapshot) {
	select {
	case <-p.in:
	default:
	}
	p.in <- s
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
		case <-time.After(certificateCheck):
		}
		if current == nil {
			continue
		}
		list := slices.Concat(analyzer.Analyze(current), certificates.Problems(current, time.Now()))
		slices.SortFunc(list, config.Problem.Compare)
		list = slices.Compact(list)
		p.list.Store(&list)
		known = ingest.LogProblems(p.log, known, list)
	}
}

// current gives what the last look found.
func (p *problems) current() []config.Problem {
	if l := p.list.Load(); l != nil {
		return *l
	}
	return nil
}
