package hostileclients

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// report is the table of results, in Markdown.
type report struct {
	t    *testing.T
	s    *scene
	rows []string
	bad  []string
	// What the scorecard shows of all attacks together.
	clients, refused, attacks int
	slowest                   time.Duration
	growth                    int64 // MiB
}

// newReport writes the file of the flag -report when the test ends.
func newReport(t *testing.T, s *scene) *report {
	p := &report{t: t, s: s}
	t.Cleanup(func() {
		if *reportFile == "" {
			return
		}
		if err := os.WriteFile(*reportFile, []byte(p.text()), 0o644); err != nil { //nolint:gosec // a report
			t.Error(err)
		}
	})
	return p
}

func (p *report) add(r *result) {
	var honest []string
	byName := map[string]latencies{}
	for _, l := range r.honest {
		p.clients, p.refused, p.slowest = p.clients+len(l.good), p.refused+l.failures(), max(p.slowest, l.most())
		byName[l.probe.name] = l
	}
	for _, x := range p.s.probes() {
		text := "–"
		if l, ok := byName[x.name]; ok {
			text = l.String()
		}
		honest = append(honest, text)
	}
	p.attacks += int(r.outcome.Made)
	p.growth = max(p.growth, r.peak[p.s.plane]-r.before[p.s.plane].resident)
	verdict := "holds"
	if len(r.failures) > 0 {
		verdict = "**fails**"
		p.bad = append(p.bad, fmt.Sprintf("- %s\n  - %s", r.name, strings.Join(r.failures, "\n  - ")))
	}
	back := "not within 30 s"
	if r.recovery > 0 {
		back = fmt.Sprintf("%.1f s", r.recovery.Seconds())
	}
	v := p.s.plane
	if r.row != nil && strings.Contains(r.row.name, "agent") || r.row != nil && len(r.honest) < 6 {
		v = p.s.agent
	}
	before, after := r.before[v], r.after[v]
	line := fmt.Sprintf("| %s | %s | %s | %d | %d → %d → %d | %d → %d | %d → %d | %d → %d | %d | %s | %d/%d |",
		r.name, verdict, strings.Join(honest, " | "), r.allowance.Milliseconds(),
		before.resident, r.peak[v], after.resident, before.heap, after.heap, before.goroutines,
		after.goroutines, before.files, after.files,
		(after.log-before.log)>>10, back, r.outcome.Made, r.outcome.Count)
	p.rows = append(p.rows, line)
	p.t.Log(line)
}

func (p *report) text() string {
	var b strings.Builder
	var names []string
	for _, x := range p.s.probes() {
		names = append(names, x.name)
	}
	fmt.Fprintf(&b,
		"Honest clients: p50/p99/max in ms. Allowance: ms that the machine itself cost, added to the bounds. Memory: resident MiB before → most → after; heap, goroutines and files before → after; log KiB.\n"+
			"Made/count: how often it was attacked, and the attack's own count.\n\n| attack | verdict | %s | allowance | memory | heap | goroutines | files | log | back after | made/count |\n|%s\n",
		strings.Join(names, " | "), strings.Repeat("---|", len(names)+10))
	fmt.Fprintln(&b, strings.Join(p.rows, "\n"))
	if len(p.bad) > 0 {
		fmt.Fprintf(&b, "\n## What fails\n\n%s\n", strings.Join(p.bad, "\n"))
	}
	return b.String()
}

// record writes the results of all attacks.
func (p *report) record(check scorecard.Record) {
	check.Measured("attacks made", p.attacks)
	check.Measured("attacks that broke a bound", len(p.bad))
	check.Measured("honest clients", p.clients)
	check.Measured("honest clients refused", p.refused)
	check.Measured("slowest honest client", p.slowest)
	check.Measured("memory growth in MiB", p.growth)
	check.Measured("restarts", p.s.restarts)
}
