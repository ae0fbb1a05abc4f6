package push_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// recorder is a Metrics that counts its calls.
type recorder struct {
	push.NoMetrics
	mu   sync.Mutex
	seen map[string]int
}

func (r *recorder) count(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[fmt.Sprintf(format, args...)]++
}

// since returns the calls that were counted since its last call.
func (r *recorder) since() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, k := range slices.Sorted(maps.Keys(r.seen)) {
		list = append(list, fmt.Sprintf("%s x%d", k, r.seen[k]))
	}
	r.seen = nil
	return list
}

func (r *recorder) Connected(d int, version string) { r.count("connected %+d %q", d, version) }
func (r *recorder) Sent(typeURL string, _, _ int, _ time.Duration) {
	r.count("sent %s", api.ShortType(typeURL))
}
func (r *recorder) Acked(typeURL string)          { r.count("acked %s", api.ShortType(typeURL)) }
func (r *recorder) Refused(n push.Nack)           { r.count("refused %s", api.ShortType(n.TypeURL)) }
func (r *recorder) RejectionResolved(n push.Nack) { r.count("mended %s", api.ShortType(n.TypeURL)) }
func (r *recorder) ExpiredNonce(typeURL string)   { r.count("expired %s", api.ShortType(typeURL)) }
func (r *recorder) Converged(d time.Duration)     { r.count("converged %v", d) }
func (r *recorder) Queued(time.Duration)          { r.count("queued") }
func (r *recorder) Published(_ time.Duration, triggers []string) {
	r.count("published %v", triggers)
}
func (r *recorder) Quarantined(n int) { r.count("quarantined %d", n) }
func (r *recorder) Classes(n int)     { r.count("classes %d", n) }

func TestMetrics(t *testing.T) {
	r := new(recorder)
	inBubble(t, 2, push.Options{Metrics: r}, func(f *fixture) {
		want := func(want ...string) {
			t.Helper()
			if d := cmp.Diff(want, r.since()); d != "" {
				t.Errorf("metrics calls (-want +got):\n%s", d)
			}
		}
		r.since()
		who := pushtest.Proxy(0, "default")
		who.Metadata.IstioVersion = "1.31"
		x := f.connect(who)
		want("acked CDS x1", "acked EDS x1", "acked LDS x1", "acked RDS x1", `connected +1 "1.31" x1`, "queued x2",
			"sent CDS x1", "sent EDS x1", "sent LDS x1", "sent RDS x1")

		f.mesh.SetEndpoints("s1", "10.7.7.7")
		f.settle() // the proxy answers after 600 ms
		x.read()
		want(
			"acked EDS x1",
			"classes 1 x1",
			"converged 600ms x1",
			"published [endpoint] x1",
			"queued x1",
			"sent EDS x1",
		)

		f.mesh.EditRoutes()
		f.settle()
		x.nak = "RDS"
		x.read()
		x.c.Request(stream.Request{TypeURL: api.RouteType, Nonce: "junk"})
		f.decide()
		x.read()
		want(
			"acked RDS x1",
			"classes 1 x1",
			"converged 600ms x1",
			"expired RDS x1",
			"mended RDS x1",
			"published [config] x1",
			"quarantined 1 x1",
			"queued x2",
			"refused RDS x1",
			"sent RDS x2",
		)

		x.c.Close()
		synctest.Wait()
		want(`connected -1 "1.31" x1`, "quarantined 0 x1")
	})
}
