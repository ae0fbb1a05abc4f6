package hostileclients

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// latencies are the answers that honest clients of one kind got.
type latencies struct {
	probe   probe
	good    []time.Duration // sorted
	refused map[string]int  // by error
}

func (l latencies) quantile(q float64) time.Duration {
	if len(l.good) == 0 {
		return 0
	}
	return l.good[min(int(q*float64(len(l.good))), len(l.good)-1)]
}

func (l latencies) most() time.Duration { return l.quantile(1) }

func (l latencies) failures() (n int) {
	for _, m := range l.refused {
		n += m
	}
	return n
}

// String is "p50/p99/max ms", and the clients that were refused.
func (l latencies) String() string {
	if len(l.good) == 0 && l.failures() == 0 {
		return "–"
	}
	text := fmt.Sprintf("%d/%d/%d", l.quantile(0.5).Milliseconds(), l.quantile(0.99).Milliseconds(),
		l.most().Milliseconds())
	if n := l.failures(); n > 0 {
		text += fmt.Sprintf(" (%d of %d refused)", n, n+len(l.good))
	}
	return text
}

// check returns an error if honest clients were refused or waited longer than the bound. The
// limit is multiplied by the slowdown that other processes of the machine cause, and the allowance is
// added: what the machine cost (see honestClients.allowance).
func (l latencies) check(allowance time.Duration, slowdown float64) error {
	if n := l.failures(); n > 0 {
		reasons := slices.Sorted(maps.Keys(l.refused))
		return fmt.Errorf("%s: %d of %d honest clients were refused: %s", l.probe.name, n, n+len(l.good),
			strings.Join(reasons, "; "))
	}
	if len(l.good) == 0 {
		return fmt.Errorf("%s: no honest client was measured", l.probe.name)
	}
	if bound := time.Duration(float64(l.probe.limit)*slowdown) + allowance; l.most() > bound {
		return fmt.Errorf("%s: an honest client waited %v, more than %v (other processes extend everything %.1f times)",
			l.probe.name, l.most(), bound, slowdown)
	}
	return nil
}

// honestClients run the probes until stop is called.
type honestClients struct {
	mu      sync.Mutex
	results map[string]*latencies
	quit    chan struct{}
	all     sync.WaitGroup
	late    time.Duration // the longest time that the machine did not schedule this process
}

// referenceName is the probe of a server that is not attacked.
const referenceName = "reference"

func runHonestClients(t *testing.T, probes []probe) *honestClients {
	h := &honestClients{results: map[string]*latencies{}, quit: make(chan struct{})}
	for _, p := range append([]probe{referenceProbe(t)}, probes...) {
		h.results[p.name] = &latencies{probe: p, refused: map[string]int{}}
		h.all.Go(func() { h.repeat(p) })
	}
	h.all.Go(h.watchScheduling)
	return h
}

// referenceProbe requests a page over TLS from a server of the test itself. Other processes of the
// machine, and the attack's own use of its CPUs, slow it down as much as any server.
func referenceProbe(t *testing.T) probe {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	config := server.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // documented
	return probe{referenceName, "", answerLimit, 50 * time.Millisecond, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{DialContext: dialHonest, DisableKeepAlives: true,
			TLSClientConfig: config}}
		return answered(client.Do(request))
	}}
}

// allowance is the delay caused by the load of the machine: twice the longest wait for a server
// that is not attacked, or the longest time that this process was not scheduled.
func (h *honestClients) allowance() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	reference := time.Duration(0)
	for _, d := range h.results[referenceName].good {
		reference = max(reference, d)
	}
	return max(h.late, 2*reference)
}

func (h *honestClients) repeat(p probe) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), giveUp)
		err := p.do(ctx)
		cancel()
		h.record(p.name, time.Since(begin), err)
		select {
		case <-h.quit:
			return
		case <-tick.C:
		}
	}
}

func (h *honestClients) record(name string, took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.results[name]
	if err == nil {
		l.good = append(l.good, took)
		return
	}
	text := err.Error()
	l.refused[text[:min(len(text), 200)]]++
}

// watchScheduling measures how late a timer fires.
func (h *honestClients) watchScheduling() {
	const interval = 5 * time.Millisecond
	last := time.Now()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-h.quit:
			return
		case <-tick.C:
		}
		now := time.Now()
		h.mu.Lock()
		h.late = max(h.late, now.Sub(last)-interval)
		h.mu.Unlock()
		last = now
	}
}

// stop waits for the clients that are under way and returns the results in the order of the probes.
func (h *honestClients) stop(probes []probe) []latencies {
	close(h.quit)
	h.all.Wait()
	var list []latencies
	for _, p := range probes {
		l := *h.results[p.name]
		slices.Sort(l.good)
		list = append(list, l)
	}
	return list
}
