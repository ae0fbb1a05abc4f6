package pushtrace

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an Observer of changes that a test makes.
type bench struct {
	*Observer
	changes  []push.Change // newest first
	progress uint64
	looks    int
	spans    *tracetest.InMemoryExporter
	log      bytes.Buffer
}

// newBench returns a bench whose Observer logs pushes of more than ten seconds.
func newBench() *bench {
	b := &bench{spans: tracetest.NewInMemoryExporter()}
	b.Observer = New(Options{
		Changes:  func() []push.Change { b.looks++; return slices.Clone(b.changes) },
		Progress: func() uint64 { return b.progress },
		Tracer:   sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans)).Tracer("test"),
		Slow:     10 * time.Second, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Clock: clock.System{},
	})
	return b
}

// set replaces the recorded changes.
func (b *bench) set(list ...push.Change) { b.changes, b.progress = list, b.progress+1 }

// report advances the clock and examines the change log.
func (b *bench) report(after time.Duration) {
	time.Sleep(after)
	b.reportChanges()
}

// newChange returns a change of a VirtualService that was generated for proxies, of which some have
// acknowledged it.
func newChange(number uint64, proxies, acknowledged int) push.Change {
	c := push.Change{
		Number: number, Snapshot: number + 100, Published: time.Now(), Proxies: proxies, Acknowledged: acknowledged, Classes: 1,
		Causes: []push.Cause{{Kind: push.ObjectChanged, Object: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "cart"}}},
		Generated: &rollout.TurnEnded{
			Gathered: 100 * time.Millisecond, Took: 20 * time.Millisecond, Triggers: []string{"config"}, Resources: map[string]int{api.RouteType: 2},
		},
	}
	if acknowledged > 0 {
		c.First, c.Last, c.Slowest = 150*time.Millisecond, 400*time.Millisecond, &mesh.Proxy{Name: "cart-1", Namespace: "shop"}
	}
	return c
}

// names returns the names of the spans with their offsets and durations, in order of their start.
func (b *bench) names(origin time.Time) []string {
	list := b.spans.GetSpans()
	slices.SortStableFunc(list, func(x, y tracetest.SpanStub) int { return x.StartTime.Compare(y.StartTime) })
	var names []string
	for _, s := range list {
		names = append(names, fmt.Sprintf("%s %v %v", s.Name, s.StartTime.Sub(origin), s.EndTime.Sub(s.StartTime)))
	}
	slices.Sort(names)
	return names
}

// TestTrace: a change that all proxies have acknowledged becomes one trace with its phases, once, and
// not before it has settled.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		c := newChange(1, 2, 2)
		b.set(c)
		b.report(time.Second)
		if n := len(b.spans.GetSpans()); n != 0 {
			t.Errorf("%d spans before the change has settled", n)
		}
		b.report(settleTime)
		b.report(time.Minute)
		b.set(newChange(2, 0, 0), c)
		b.report(time.Second)
		want := []string{"collect 0s 100ms", "distribute 120ms 280ms", "generate 100ms 20ms", "push 0s 400ms"}
		if diff := cmp.Diff(want, b.names(c.Published)); diff != "" {
			t.Errorf("spans -want +got:\n%s", diff)
		}
		traces := map[string]bool{}
		for _, s := range b.spans.GetSpans() {
			traces[s.SpanContext.TraceID().String()] = true
			if s.Name == "push" && (s.Status.Code != codes.Unset || !strings.Contains(fmt.Sprint(s.Attributes), "VirtualService shop/cart")) {
				t.Errorf("the push has the status %v and %v", s.Status, s.Attributes)
			}
			if s.Name == "distribute" && (len(s.Events) != 2 || s.Events[1].Name != "last acknowledgement" ||
				s.Events[1].Time.Sub(c.Published) != c.Last || !strings.Contains(fmt.Sprint(s.Events[1].Attributes), "cart-1.shop")) {
				t.Errorf("the distribution has %+v", s.Events)
			}
		}
		if len(traces) != 1 || b.log.Len() > 0 {
			t.Errorf("%d traces, log %q", len(traces), b.log.String())
		}
	})
}

// TestSecondPart: a change of which the barrier held back a part is reported with that part.
func TestSecondPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		c := newChange(1, 2, 2)
		b.set(c)
		b.report(time.Second)
		c.Proxies = 3 // a part for another proxy
		b.set(c)
		b.report(settleTime)
		c.Acknowledged, c.Last = 3, 4*time.Second
		b.set(c)
		b.report(time.Second)
		b.report(settleTime)
		if got := b.names(c.Published); !slices.Contains(got, "push 0s 4s") || len(got) != 4 {
			t.Errorf("the spans are %v", got)
		}
	})
}

// TestSlowPush: a push is logged once, when it has become slow, with its cause and the proxies that
// are behind. Its trace ends after maxAge.
func TestSlowPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		c := newChange(1, 3, 2)
		c.Causes = append(c.Causes, push.Cause{Kind: push.EndpointsChanged, Object: config.Key{Kind: api.Service, Namespace: "shop", Name: "cart"}})
		c.Behind = []push.ChangeBehind{{Proxy: &mesh.Proxy{Name: "web-1", Namespace: "shop"}, Types: []string{api.RouteType}}}
		b.set(c)
		b.report(9 * time.Second)
		if b.log.Len() > 0 {
			t.Errorf("logged after nine seconds: %s", b.log.String())
		}
		b.report(2 * time.Second)
		b.report(2 * time.Second)
		line := b.log.String()
		for _, want := range []string{
			`msg="slow push"`, `causes="VirtualService shop/cart, endpoints of Service shop/cart"`, "took=11s", "phase=distribute",
			"phase_took=10.88s", "proxies=3", "acknowledged=2", "pending=1", `behind="web-1.shop: RDS not acknowledged"`,
		} {
			if strings.Count(line, want) != 1 {
				t.Errorf("want exactly one log line %s:\n%s", want, line)
			}
		}
		if n := len(b.spans.GetSpans()); n != 0 {
			t.Errorf("%d spans of a change that may still be acknowledged", n)
		}
		b.report(maxAge)
		if spans := b.spans.GetSpans(); len(spans) != 4 || spans[3].Status.Code != codes.Error {
			t.Errorf("after %v the spans are %v", maxAge, b.names(c.Published))
		}
	})
}

// TestRejection: the trace of a rejected change is an error and has the reason.
func TestRejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		c := newChange(1, 2, 1)
		c.Refused = 1
		c.Refusals = []push.ChangeRefusal{{TypeURL: api.ClusterType, Resource: "outbound|80||cart", Message: "bad\n size"}}
		b.set(c)
		b.report(time.Second)
		b.report(settleTime)
		found := false
		for _, s := range b.spans.GetSpans() {
			if s.Name == "push" && s.Status.Code != codes.Error {
				t.Errorf("the status is %v", s.Status)
			}
			for _, e := range s.Events {
				found = found || e.Name == "rejection" && strings.Contains(fmt.Sprint(e.Attributes), "bad size")
			}
		}
		if !found {
			t.Errorf("no span has the rejection: %v", b.names(c.Published))
		}
	})
}

// TestNothingToDo: the record is not read while nothing changes and all is reported, and Run returns
// at once without a tracer and a threshold.
func TestNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.set(newChange(1, 2, 2))
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		looks := b.looks
		time.Sleep(time.Hour)
		synctest.Wait()
		if looks == 0 || b.looks != looks {
			t.Errorf("the record was read %d times, and %d times while nothing changed", looks, b.looks-looks)
		}
		cancel()
		New(Options{}).Run(t.Context())
	})
}

// TestIdleAllocatesNothing: examining the change log of an idle control plane allocates nothing.
func TestIdleAllocatesNothing(t *testing.T) {
	reports := push.New(push.Options{}).Reports()
	x := New(Options{Changes: func() []push.Change { return reports.Changes(0) }, Progress: reports.ChangeProgress, Slow: time.Second, Log: slog.New(slog.DiscardHandler), Clock: clock.System{}})
	if n := testing.AllocsPerRun(100, x.reportChanges); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlowestPhase names the phase with the largest part.
func TestSlowestPhase(t *testing.T) {
	for want, c := range map[string]push.Change{
		"collect":             {Generated: &rollout.TurnEnded{Gathered: 8 * time.Second, Took: time.Second}},
		"generate":            {Generated: &rollout.TurnEnded{Gathered: time.Second, Took: 8 * time.Second}},
		"distribute":          {Generated: &rollout.TurnEnded{Gathered: time.Second, Took: time.Second}},
		"collect or generate": {},
	} {
		if got, _ := slowestPhase(&c, 10*time.Second); got != want {
			t.Errorf("%+v: %s, want %s", c.Generated, got, want)
		}
	}
}
