package perf_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// BenchmarkReadAPI is what the pages of the console read of a control plane with 10,000 proxies: each
// answer without what was kept of the one before.
func BenchmarkReadAPI(b *testing.B) {
	const proxies = 10_000
	m := newMesh(b, workload.Params{Services: 1000, Endpoints: 10, Routes: 2, Namespaces: 20, Scope: workload.Namespace})
	p := newPlane(b, m)
	connect(b, p, nodesOf(b, m, proxies))
	reports := p.Pusher.Reports()
	pages := debug.New(debug.Options{Snapshot: p.Builder.Current, Proxies: reports, Conflicts: p.Table.ConflictsOf, Unserved: p.Table.Unserved})
	o := readapi.Options{
		Snapshot: p.Builder.Current, Connections: reports.Connections, StreamStates: reports.StreamStates,
		Connection: reports.Connection,
		Changes:    func() []push.Change { return reports.Changes(readapi.BehindAfter) }, ChangeProgress: reports.ChangeProgress, Problems: pages.Problems, Pages: pages, Table: p.Table,
	}
	o.Clock = new(leapingClock) // so that nothing is kept
	for _, path := range []string{"/overview", "/problems", "/proxies?limit=100", "/proxies", "/objects", "/services", "/topology", "/changes?limit=100"} {
		b.Run(path[1:], func(b *testing.B) {
			b.ReportAllocs()
			api := readapi.New(o)
			size, before := 0, cpuTime(b)
			for b.Loop() {
				size = read(b, api, path)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(size), "B/answer")
		})
	}
	b.Run("proxies, kept", func(b *testing.B) {
		o.Clock = nil
		api := readapi.New(o)
		for b.Loop() {
			read(b, api, "/proxies")
		}
	})
}

// leapingClock is a clock on which an hour passes between two readings.
type leapingClock struct {
	clock.System
	hours atomic.Int64
}

func (c *leapingClock) Now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(c.hours.Add(1)) * time.Hour)
}

// cpuTime returns the CPU time of the process. Unlike the duration, it does not depend on what else the
// machine does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// read reads a document as a browser does, and returns its size.
func read(b *testing.B, api http.Handler, path string) int {
	b.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+readapi.Prefix+path, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Len()
}
