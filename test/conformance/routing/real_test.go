package routing

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

const (
	// atOnce is the number of cases that run concurrently: many of them wait.
	atOnce = 12
	// mirrorTime is the timeout of the wait for copies, which arrive after the answer.
	mirrorTime = 3 * time.Second
	// leastCases is the minimum number of cases with real calls.
	leastCases = 250
)

// run is a case with the results of its real calls.
type run struct {
	c        *table.Case
	path     *explain.Path // nil where the case is not explained
	outcomes []outcome
	wrong    wrong
}

// TestReal makes the calls of all cases through real Envoys.
func TestReal(t *testing.T) {
	s := newScene(t)
	w := startWorld(t, s)
	begin := time.Now()
	runs := w.callAll(t)
	t.Logf("%d cases took %s", len(runs), time.Since(begin).Round(time.Millisecond))
	w.compareLogs(t, runs)
	w.explainDumps(t, runs)
	if *only == "" {
		w.askControlPlane(t, runs)
	}
	for _, r := range runs {
		t.Run(r.c.ID(), func(t *testing.T) { r.report(t) })
	}
	t.Logf("all of it took %s", time.Since(begin).Round(time.Millisecond))
	if *only == "" && len(runs) < leastCases {
		t.Errorf("%d cases were really called, want at least %d", len(runs), leastCases)
	}
}

// callAll runs the cases side by side.
func (w *world) callAll(t *testing.T) []*run {
	t.Helper()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var runs []*run
	for _, topic := range w.table.Topics {
		for _, c := range topic.Cases {
			if c.Unreal == "" && chosen.MatchString(c.ID()) {
				runs = append(runs, &run{c: c})
			}
		}
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(atOnce)
	for _, r := range runs {
		group.Go(func() error { return w.play(ctx, r) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return runs
}

// play makes the calls of a case and compares the results with the case and with the explanation.
func (w *world) play(ctx context.Context, r *run) (err error) {
	call, err := w.call(r.c)
	if err != nil {
		return fmt.Errorf("%s: %w", r.c.ID(), err)
	}
	if r.c.Unexplained == "" {
		if r.path, err = w.explain(r.c); err != nil {
			return fmt.Errorf("%s: %w", r.c.ID(), err)
		}
	}
	from := w.nodes[r.c.From]
	if r.c.Into != "" {
		from = w.nodes["outside"]
	}
	k := newCaller(from, r.c, call)
	defer k.close()
	for i := range r.c.Times {
		if call.Request == nil {
			k.http.CloseIdleConnections()
		}
		r.outcomes = append(r.outcomes, k.do(ctx, fmt.Sprintf("%s#%d", strings.ReplaceAll(r.c.ID(), " ", "_"), i)))
	}
	w.awaitMirrors(ctx, r)
	r.wrong = append(r.wrong, w.judgeOutcomes(r)...)
	if r.path != nil {
		r.wrong = append(r.wrong, w.disagreements(r)...)
	}
	return nil
}

// report fails or passes the case.
func (r *run) report(t *testing.T) {
	t.Helper()
	if r.c.Broken != "" {
		if len(r.wrong) == 0 {
			t.Errorf("passes, though it is marked as broken: %s", r.c.Broken)
			return
		}
		t.Skipf("known to be broken: %s: %q", r.c.Broken, r.wrong)
	}
	for _, w := range r.wrong {
		t.Error(w)
	}
	if t.Failed() {
		t.Logf("the first outcome: %s\n%v", r.outcomes[0], r.path)
	}
}

// sightings returns what backends saw of a call: of the call itself, and of its copies.
func (w *world) sightings(r *run, o outcome) (own, copies []backend.Sighting) {
	for _, s := range w.memory.SightingsOf(o.id) {
		isCopy := false
		for name := range r.c.Expect.Mirrored {
			isCopy = isCopy || calltest.Means(name, w.table.Instance(s.Instance))
		}
		if isCopy {
			copies = append(copies, s)
		} else {
			own = append(own, s)
		}
	}
	return own, copies
}

// awaitMirrors waits until all expected copies of the calls have arrived.
func (w *world) awaitMirrors(ctx context.Context, r *run) {
	want := 0
	for _, share := range r.c.Expect.Mirrored {
		if share == 100 {
			want++
		}
	}
	if r.c.Expect.Mirrored == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mirrorTime)
	defer cancel()
	if want == 0 { // a random result cannot be awaited
		cancelled, stop := context.WithTimeout(ctx, mirrorTime/6)
		defer stop()
		<-cancelled.Done()
		return
	}
	for {
		missing := false
		for _, o := range r.outcomes {
			_, copies := w.sightings(r, o)
			missing = missing || len(copies) < want
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		if !missing {
			return
		}
	}
}
