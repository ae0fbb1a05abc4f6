package discovery

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/meshpilot/meshpilot/internal/analysis"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// problems runs the analysis of the newest snapshot, beside the path of pushes.
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

func (p *problems) run(ctx context.Context) {
	var known map[config.Problem]bool
	analyzer := analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh})
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-p.in:
			list := analyzer.Analyze(s)
			p.list.Store(&list)
			known = ingest.LogProblems(p.log, known, list)
		}
	}
}

// current gives what the last analysis found.
func (p *problems) current() []config.Problem {
	if l := p.list.Load(); l != nil {
		return *l
	}
	return nil
}
