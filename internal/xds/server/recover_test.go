package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// safeLog is a log that several goroutines may write.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// poisonedPages panics for the page "poison", on the receiving goroutine.
type poisonedPages struct{ pages }

func (p poisonedPages) Page(name, ns string) ([]byte, error) {
	if name == "poison" {
		panic("poisoned page")
	}
	return p.pages.Page(name, ns)
}

// TestStreamsThatPanic: a panic, in any goroutine of a stream, ends only that stream. Other streams
// continue, and the proxy is served when it reconnects.
func TestStreamsThatPanic(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		log := &safeLog{}
		poisoned := true
		h := serve(t, 2, Options{
			Recovery: recovery.New(recovery.Options{Log: slog.New(slog.NewTextHandler(log, nil))}),
			Debug:    poisonedPages{},
			Admit: func(p *mesh.Proxy, _ Hello) error {
				if p.Name == "p7" && poisoned {
					poisoned = false
					panic("poisoned proxy")
				}
				return nil
			},
		})
		other := h.connect(mode, testNode(1))
		other.start()

		victim := h.connect(mode, testNode(7))
		victim.ask(api.ClusterType, nil, nil)
		if err := victim.wantEnd(); status.Code(err) != codes.Internal {
			t.Errorf("the first request: the stream ends with %v", err)
		}
		again := h.connect(mode, testNode(7))
		again.start()
		again.ask("istio.io/debug/poison", nil, nil)
		if err := again.wantEnd(); status.Code(err) != codes.Internal {
			t.Errorf("a later request: the stream ends with %v", err)
		}
		h.wait("the streams are closed", func() bool { return h.pusher.Reports().Stats().Clients == 1 })
		third := h.connect(mode, testNode(7))
		third.start()

		h.mesh.AddService("new")
		other.want(api.ClusterType)
		for _, want := range []string{"poisoned proxy", "poisoned page", "peer=127.0.0.1", "stack="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q: %s", want, log)
			}
		}
	})
}

// TestPanicsBackOff: a proxy whose streams panic repeatedly is refused for increasing times. Other
// proxies are not refused.
func TestPanicsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b panicBackoff
		for i, seconds := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60} {
			want := time.Duration(seconds) * time.Second
			b.recordPanic("a", time.Now())
			if got := b.backoffFor("a", time.Now()); got != want {
				t.Errorf("after panic %d: %v, want %v", i+1, got, want)
			}
			time.Sleep(want + time.Millisecond)
			if got := b.backoffFor("a", time.Now()); got != 0 {
				t.Errorf("later: %v", got)
			}
		}
		if b.backoffFor("b", time.Now()) != 0 {
			t.Error("another proxy has to wait")
		}
		time.Sleep(2 * panicMemory)
		if b.recordPanic("a", time.Now()); b.backoffFor("a", time.Now()) != 0 {
			t.Error("the proxy has to wait because of expired panics")
		}
		for i := range 3 * maxPanicked {
			b.recordPanic(fmt.Sprint(i), time.Now())
		}
		if len(b.seen) > maxPanicked {
			t.Errorf("%d proxies are tracked", len(b.seen))
		}
	})
}

// TestRepeatedPanics: over real streams the third attempt of a proxy whose streams panic is refused
// with Unavailable.
func TestRepeatedPanics(t *testing.T) {
	h := serve(t, 1, Options{Recovery: recovery.New(recovery.Options{}), Debug: poisonedPages{}})
	var codesSeen []codes.Code
	for i := range 3 {
		c := h.connect(stream.Delta, testNode(3))
		if i < 2 {
			c.start()
			c.ask("istio.io/debug/poison", nil, nil)
		} else {
			c.ask(api.ClusterType, nil, nil)
		}
		codesSeen = append(codesSeen, status.Code(c.wantEnd()))
	}
	if want := []codes.Code{codes.Internal, codes.Internal, codes.Unavailable}; !slices.Equal(codesSeen, want) {
		t.Errorf("streams ended with %v, want %v", codesSeen, want)
	}
	h.connect(stream.Delta, testNode(4)).start()
}
