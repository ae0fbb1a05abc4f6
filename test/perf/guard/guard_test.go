package guard

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/benchmark/parse"

	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
)

var update = flag.Bool("update", false, "write the table of docs/BENCHMARKS.md")

// tolerance is the growth that is accepted, and slack what is accepted in addition: single
// allocations of the runtime.
const tolerance, slackCount, slackBytes = 1.1, 1, 256

// figure is the cost of one event: allocations, their bytes, and bytes sent to proxies. sent is 0 for Go
// benchmarks, bytes for meshbench, where they differ by a tenth from run to run.
type figure struct{ count, bytes, sent int64 }

// exceeds reports whether f is larger than the recorded figure r by more than the tolerance.
func (f figure) exceeds(r figure) bool {
	above := func(now, before, slack int64) bool { return float64(now) > float64(before)*tolerance+float64(slack) }
	return above(f.count, r.count, slackCount) || above(f.bytes, r.bytes, slackBytes) || above(f.sent, r.sent, 0)
}

// smaller returns the smaller values of f and g.
func (f figure) smaller(g figure) figure {
	return figure{min(f.count, g.count), min(f.bytes, g.bytes), min(f.sent, g.sent)}
}

// anyExceeds reports whether any figure exceeds the recorded one of its name.
func anyExceeds(figures, recorded map[string]figure) bool {
	for name, f := range figures {
		if r, ok := recorded[name]; ok && f.exceeds(r) {
			return true
		}
	}
	return false
}

func (f figure) String() string {
	return fmt.Sprintf("%d allocations of %d bytes, %d bytes sent", f.count, f.bytes, f.sent)
}

// benchmarks are the guarded Go benchmarks: each step on the path from an object to a proxy.
var benchmarks = []struct{ pkg, names string }{
	{"test/perf", `^Benchmark(Apply|View|Translate)$/./^1000services$|^BenchmarkDiff$/^1000services$|^BenchmarkFanOut$/./^100proxies$`},
	{"internal/xds/stream", `^BenchmarkPush$/./^delta$/^1000$|^BenchmarkConnect$/^delta$/^1000$|^BenchmarkReconnect$/^1000$`},
	{"internal/xds/server", `^Benchmark(Response|Payload)$|^BenchmarkRequestWithState$/^by_hand$|^BenchmarkNode$/^decode$`},
	{"internal/translate/cluster", `^BenchmarkAllFirst$/^services=1000$`},
	{"internal/translate/endpoint", `^BenchmarkNamedFirst$/^services=1000$|^BenchmarkAssignment$`},
	{"internal/translate/listener", `^BenchmarkAll$/^services=1000$`},
	{"internal/translate/route", `^BenchmarkRouteConfiguration$/^1000-services$`},
}

// TestCostOfEvents compares all figures with the recorded ones, both ways: a figure without a record,
// or a record without a figure, fails too. Benchmarks that exceed their record are measured once more,
// and the smaller figure counts: on a busy machine other goroutines allocate more while one runs.
func TestCostOfEvents(t *testing.T) {
	longtest.Test(t)
	measured := map[string]figure{}
	recorded := readTable(t)
	for _, b := range benchmarks {
		figures := runBenchmarks(t, b.pkg, b.names)
		if !*update && anyExceeds(figures, recorded) {
			for name, again := range runBenchmarks(t, b.pkg, b.names) {
				figures[name] = figures[name].smaller(again)
			}
		}
		maps.Copy(measured, figures)
	}
	runSmallGroup(t, measured)
	if *update {
		writeTable(t, measured)
		return
	}
	const hint = "run `MESHPILOT_LONG=true go test ./test/perf/guard -update`, and explain the change of docs/BENCHMARKS.md"
	for name, f := range measured {
		r, ok := recorded[name]
		switch {
		case !ok:
			t.Errorf("%s is not recorded: %s", name, hint)
		case f.exceeds(r):
			t.Errorf("%s: %s; recorded are %s. If this is intended, %s", name, f, r, hint)
		}
	}
	for name := range recorded {
		if _, ok := measured[name]; !ok {
			t.Errorf("%s is recorded and was not measured: %s", name, hint)
		}
	}
}

// processors matches the number of processors in the name of a result.
var processors = regexp.MustCompile(`-\d+$`)

// runBenchmarks measures the benchmarks of a package, and returns their figures by package and name.
// There are no garbage collections during one: they empty caches with weak references (ADR 3) at
// random moments.
func runBenchmarks(t *testing.T, pkg, names string) map[string]figure {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-exec", "env GOGC=off",
		"-run", "^$", "-bench", names, "-benchmem", "-benchtime", "10x", "./"+pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("benchmarks of %s: %v\n%s", pkg, err, out)
	}
	set, err := parse.ParseSet(strings.NewReader(string(out)))
	if err != nil || len(set) == 0 {
		t.Fatalf("benchmarks of %s: %v\n%s", pkg, err, out)
	}
	figures := map[string]figure{}
	for name, runs := range set {
		name = processors.ReplaceAllString(strings.TrimPrefix(name, "Benchmark"), "")
		figures[pkg+" "+name] = figure{count: int64(runs[0].AllocsPerOp), bytes: int64(runs[0].AllocedBytesPerOp)}
	}
	return figures
}

// runSmallGroup measures single changes of meshbench's group small/main.
func runSmallGroup(t *testing.T, into map[string]figure) {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := scenario.Groups("small")
	if err != nil {
		t.Fatal(err)
	}
	changes := []string{"connect", "endpoint", "route", "destinationrule", "newservice", "goneservice"}
	r, err := scenario.Run(t.Context(), scenario.Options{
		Plane: target.Plane{Kind: target.Meshpilot, Binary: binary}, Dir: t.TempDir(), Source: scenario.FileSource, Delta: true,
		FilePerObject: true, Only: changes, Repeat: 5, Settle: 100 * time.Millisecond, Patience: time.Minute, Progress: io.Discard,
	}, groups[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if len(row.Errors) > 0 || row.Missing > 0 {
			t.Fatalf("%s: %d deliveries are missing, %v", row.Scenario, row.Missing, row.Errors)
		}
		if slices.Contains(changes, row.Scenario) {
			n := float64(max(row.Events, 1))
			into["meshbench "+r.Group+" "+row.Scenario] = figure{
				count: int64(row.Usage.Allocations / n), sent: int64(float64(row.Usage.Bytes) / n),
			}
		}
	}
}

func TestExceeds(t *testing.T) {
	recorded := figure{count: 1000, bytes: 100_000, sent: 5000}
	for f, want := range map[figure]bool{
		recorded: false,
		{count: 1099, bytes: 109_000, sent: 5400}: false,
		{count: 1, bytes: 1, sent: 1}:             false,
		{count: 1200, bytes: 100_000, sent: 5000}: true,
		{count: 1000, bytes: 120_000, sent: 5000}: true,
		{count: 1000, bytes: 100_000, sent: 5501}: true,
	} {
		if f.exceeds(recorded) != want {
			t.Errorf("%s exceeds %s: want %v", f, recorded, want)
		}
		if got := anyExceeds(map[string]figure{"a": f, "new": recorded}, map[string]figure{"a": recorded}); got != want {
			t.Errorf("any of %s exceeds %s: %v, want %v", f, recorded, got, want)
		}
	}
	if got, want := (figure{1, 20, 3}).smaller(figure{10, 2, 30}), (figure{1, 2, 3}); got != want {
		t.Errorf("the smaller figure is %s, want %s", got, want)
	}
}
