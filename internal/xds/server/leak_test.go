package server

import (
	"flag"
	"os"
	"runtime"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// The full size is -streams 1000 -rounds 50.
var (
	leakStreams = flag.Int(
		"streams",
		scorecard.BySize(100, 1000, 1000),
		"streams of a round of TestConnectDisconnectLeavesNothing",
	)
	leakRounds = flag.Int("rounds", scorecard.BySize(6, 50, 100), "rounds of TestConnectDisconnectLeavesNothing")
)

// held contains the resources that a process uses.
type held struct {
	goroutines, files int
	heap              uint64
}

func holding(t *testing.T) held {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	m, goroutines := settle()
	return held{goroutines, len(files), m.HeapAlloc}
}

// TestConnectDisconnectLeavesNothing connects and disconnects streams, round after round, and
// checks that the process returns to its previous size. Some are served in full; others end before
// their first request, before the response or in the middle of it, or never send anything.
func TestConnectDisconnectLeavesNothing(t *testing.T) {
	check := scorecard.Check(t, 30, scorecard.Size("streams", *leakStreams), scorecard.Size("rounds", *leakRounds))
	h := serve(t, 200, Options{})
	node := realNode(t, 0)
	round := func() {
		all := serving.NewGroup(t)
		for i := range *leakStreams {
			all.Go(func(t testing.TB) {
				c := dialRaw(t, h.addr, 1<<20)
				defer c.Close()
				switch i % 5 {
				case 0, 1:
					c.start(t, realNode(t, i%250))
				case 2:
					c.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: node})
				case 3:
					c.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: node})
					c.read(t)
				}
			})
		}
		all.Wait()
		h.wait("all streams have ended", func() bool {
			h.server.mu.Lock()
			defer h.server.mu.Unlock()
			return len(h.server.sessions) == 0 && h.pusher.Reports().Stats().Clients == 0
		})
	}
	round()
	round() // pools and caches that later rounds reuse are filled now
	var before, after held
	h.wait("the first rounds are over", func() bool { before = holding(t); return before.goroutines < 20 })
	t.Cleanup(func() {
		t.Logf("%d rounds of %d streams: before %+v, after %+v, stacks %d KB", *leakRounds,
			*leakStreams, before, after, stacks()>>10)
	})
	for range *leakRounds - 2 {
		round()
	}
	// A stream that left anything behind would leave more than this. Go's runtime keeps the descriptors of goroutines forever, and stopped
	// timers for a while: their number follows the most streams at once, which grows a little with the number of rounds.
	const perStream = 8
	bound := before.heap + before.heap/100 + 64<<10 + uint64(perStream**leakStreams**leakRounds)
	h.wait("the process uses no more than before", func() bool {
		after = holding(t)
		return after.goroutines <= before.goroutines && after.files <= before.files && after.heap < bound
	})
	check.Measured("goroutines before", before.goroutines)
	check.Measured("goroutines after", after.goroutines)
	check.Measured("heap before", before.heap)
	check.Measured("heap after", after.heap)
}

func stacks() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
