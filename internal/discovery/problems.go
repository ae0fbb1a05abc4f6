package discovery

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
)

// problems looks for what is wrong in the newest snapshot, beside the path of pushes. What proxies refuse is added by the
// debug pages.
type problems struct {
	log  *slog.Logger
	in   chan sighting // holds the newest one
	list atomic.Pointer[[]config.Problem]
	seen atomic.Uint64 // the version of the snapshot that the list is of
	// changed, if set, is called when there is another list.
	changed func()
	// injects says that this control plane injects pods.
	injects bool
}

// sighting is a snapshot to be looked through. It is due soon if more than endpoints differs from the last one that was.
type sighting struct {
	*snapshot.Snapshot
	soon bool
}

func newProblems(log *slog.Logger) *problems {
	return &problems{log: log, in: make(chan sighting, 1)}
}

// take hands over a snapshot and how it differs from the one before; one that waits still is dropped for it. It is called by one
// goroutine.
func (p *problems) take(s *snapshot.Snapshot, d snapshot.Delta) {
	next := sighting{s, !d.EndpointsOnly() || d.Empty()}
	select {
	case old := <-p.in:
		next.soon = next.soon || old.soon
	default:
	}
	p.in <- next
}

// certificateCheck is how often certificates are looked at that did not change: they expire. endpointsCheck is how long changes
// of endpoints wait: pods come and go all the time, and there is next to nothing to find.
const (
	certificateCheck = time.Hour
	endpointsCheck   = 10 * time.Second
)

// After each look there is a pause for as many times as long as it took, but for the bounds, so that a mesh that changes all the
// time is not looked through all the time.
const (
	pauseShare = 20
	minPause   = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

func (p *problems) run(ctx context.Context) {
	var (
		look    = newLook(p)
		current sighting
		due     <-chan time.Time // of one that is not due soon
	)
	for {
		select {
		case <-ctx.Done():
			return
		case current = <-p.in:
			if !current.soon {
				if due == nil {
					due = time.After(endpointsCheck)
				}
				continue
			}
		case <-due:
		case <-time.After(certificateCheck):
		}
		if current.Snapshot == nil {
			continue
		}
		due = nil
		var took time.Duration
		if err := recovery.Call(ctx, "task", func() error { took = look.at(current.Snapshot); return nil }, "task", "analysis"); err != nil {
			look = newLook(p) // what it remembered may be half of it; the list of the last look stays
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(max(pauseShare*took, minPause), maxPause)):
		}
	}
}

// look is what looks through snapshots, and what it remembers of the last one.
type look struct {
	*problems
	analyzer     *analysis.Analyzer
	certificates secret.Inspector
	known        map[config.Problem]bool
}

func newLook(p *problems) *look {
	return &look{problems: p, analyzer: analysis.New(analysis.Unhonoured{Object: p.unhonoured, Mesh: translate.UnhonouredMesh})}
}

// at looks through a snapshot, and gives how long that took.
func (l *look) at(s *snapshot.Snapshot) time.Duration {
	began := time.Now()
	list := slices.Concat(l.analyzer.Analyze(s), l.certificates.Problems(s, began), plugin.Problems(s))
	slices.SortFunc(list, config.Problem.Compare)
	list = slices.Compact(list)
	last := l.list.Swap(&list)
	l.seen.Store(s.Version)
	if l.changed != nil && (last == nil || !slices.Equal(*last, list)) {
		l.changed()
	}
	l.known = ingest.LogProblems(l.log, l.known, list)
	return time.Since(began)
}

// current gives what the last look found.
func (p *problems) current() []config.Problem {
	if l := p.list.Load(); l != nil {
		return *l
	}
	return nil
}

// unhonoured gives what of an object has no effect. Whether that is so of a ProxyConfig depends on who starts the proxies.
func (p *problems) unhonoured(c *config.Config) []config.Problem {
	if c.Kind == api.ProxyConfig && !p.injects {
		return []config.Problem{{
			Field: "spec", Severity: config.Warning,
			Reason: "has no effect: it is for proxies that are injected, and nothing is injected here; use the annotation proxy.istio.io/config, or PROXY_CONFIG",
		}}
	}
	return translate.Unhonoured(c)
}
