package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// consoles is the number of open consoles. They show the pages one after the other.
	consoles = 20
	// consoleTime is for how long the cost of open consoles is measured.
	consoleTime = 20 * time.Second
	// consoleCPU bounds the additional CPU time of all consoles as a share of one CPU while nothing
	// changes, and consoleMemory their additional heap.
	consoleCPU    = 0.03
	consoleMemory = 20 << 20
)

// pages are the pages that consoles show.
var pages = []string{"overview", "changes", "proxies"} //nolint:gochecknoglobals // a constant

// openConsoles measures the cost of open consoles: of a quiet mesh, and with a change each second,
// beside the same without them. A console is a client that reads what the page reads: its files, the
// events of the overview, and the list of problems when these change, the events of changes, or the
// first page of proxies.
func openConsoles(b *bench, row *report.Row) error {
	b.awaitQuiet()
	without := b.process.Memory(true)
	quiet, busy, err := b.costPerSecond()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	list := make([]*console, consoles)
	var open sync.WaitGroup
	cpu := b.process.CPU()
	for i := range list {
		list[i] = &console{site: "http://" + b.settings.HTTP, page: pages[i%len(pages)], complete: make(chan struct{})}
		open.Go(func() { list[i].follow(ctx) })
	}
	for _, c := range list {
		if err := b.waitFor(c.complete, "the first view of a console"); err != nil {
			return err
		}
		row.Values["first_view_ms"] = max(row.Values["first_view_ms"], milliseconds(c.first))
		kibibytes := "first_view_kib_" + c.page
		row.Values[kibibytes] = max(row.Values[kibibytes], float64(c.received.Load())/kib)
	}
	row.Values["first_view_cpu_ms"] = milliseconds(b.process.CPU() - cpu)
	b.awaitQuiet()
	p := b.beginMeasurement()
	quietOpen, busyOpen, err := b.costPerSecond()
	b.endMeasurement(p, row)
	with := b.process.Memory(true)
	row.Memory = &with
	cancel()
	open.Wait()
	if err != nil {
		return err
	}
	events := 0
	for _, c := range list {
		events += c.events
	}
	more := max(0, with.Heap-without.Heap)
	row.Values["quiet_cpu_ms_per_s"], row.Values["quiet_cpu_ms_per_s_with_consoles"] = quiet*1000, quietOpen*1000
	row.Values["busy_cpu_ms_per_s"], row.Values["busy_cpu_ms_per_s_with_consoles"] = busy*1000, busyOpen*1000
	row.Values["heap_kib_more"], row.Values["events"] = float64(more)/kib, float64(events)
	switch {
	case quietOpen-quiet > consoleCPU:
		return fmt.Errorf("%d consoles cost %.1f %% of a CPU, more than %.0f %%", consoles, (quietOpen-quiet)*100, consoleCPU*100)
	case more > consoleMemory:
		return fmt.Errorf("%d consoles take %d KiB of heap, more than %d KiB", consoles, more/kib, consoleMemory/kib)
	}
	return nil
}

// costPerSecond returns the CPU time of the control plane per second, while nothing changes and with
// the change of an endpoint each second.
func (b *bench) costPerSecond() (quiet, busy float64, err error) {
	b.awaitQuiet()
	began, cpu := time.Now(), b.process.CPU()
	b.pauseFor(consoleTime)
	quiet = (b.process.CPU() - cpu).Seconds() / time.Since(began).Seconds()
	began, cpu = time.Now(), b.process.CPU()
	for range int(consoleTime.Seconds()) {
		x, err := b.makeChange(workload.EndpointEdit, workload.SharedNamespace)
		if err != nil {
			return 0, 0, err
		}
		b.pauseFor(time.Second)
		if err := b.waitFor(x.Done, "a change of an endpoint"); err != nil {
			return 0, 0, err
		}
	}
	return quiet, (b.process.CPU() - cpu).Seconds() / time.Since(began).Seconds(), b.ctx.Err()
}

// console is a client that reads what an open page of the web console reads.
type console struct {
	site, page string

	complete chan struct{} // closed when the first view is complete
	first    time.Duration // until then
	events   int
	overview string       // the newest event
	revision string       // of the problems that it shows
	received atomic.Int64 // bytes
}

// dial connects to a server and counts the bytes that it sends.
func (c *console) dial(ctx context.Context, network, address string) (net.Conn, error) {
	x, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return serving.CountReads(x, &c.received), nil
}

// follow opens the page and follows its events until ctx ends. Errors leave the first view incomplete.
func (c *console) follow(ctx context.Context) {
	began := time.Now()
	client := &http.Client{Transport: &http.Transport{DialContext: c.dial}}
	defer client.CloseIdleConnections()
	page := c.read(ctx, client, "/ui/")
	for _, part := range slices.Compact(strings.Split(string(page), `"`)) {
		if strings.HasPrefix(part, "/ui/assets/") {
			c.read(ctx, client, part)
		}
	}
	shown := make(chan struct{}, 2) //nolint:mnd // one for each stream
	var streams sync.WaitGroup
	streams.Go(func() { c.stream(ctx, client, "/api/v1/overview/events", true, shown) })
	wait := 1
	if limit := map[string]string{"overview": "5", "changes": "100"}[c.page]; limit != "" {
		streams.Go(func() { c.stream(ctx, client, "/api/v1/changes/events?limit="+limit, false, shown) })
		wait++
	}
	for range wait {
		select {
		case <-shown:
		case <-ctx.Done():
		}
	}
	if c.first = time.Since(began); ctx.Err() == nil {
		close(c.complete)
	}
	streams.Wait()
}

// stream reads server-sent events, and what the page shows when an overview has changed: the list of
// problems when they have, or the proxies. It reports the first complete one to shown.
func (c *console) stream(ctx context.Context, client *http.Client, path string, overview bool, shown chan<- struct{}) {
	answer, err := c.get(ctx, client, path)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	first := true
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if overview {
			c.showOverview(ctx, client, data)
		}
		if first {
			first = false
			shown <- struct{}{}
		}
	}
}

// showOverview reads what the page shows of an overview.
func (c *console) showOverview(ctx context.Context, client *http.Client, data string) {
	c.events++
	var x struct{ Revision string }
	if err := json.Unmarshal([]byte(data), &x); err != nil {
		return
	}
	switch {
	case c.page == "proxies" && data != c.overview:
		c.read(ctx, client, "/api/v1/proxies?offset=0&limit=100")
	case c.page == "overview" && x.Revision != c.revision:
		c.read(ctx, client, "/api/v1/problems")
	}
	c.overview, c.revision = data, x.Revision
}

// read returns a document, or nil if it cannot be read.
func (c *console) read(ctx context.Context, client *http.Client, path string) []byte {
	answer, err := c.get(ctx, client, path)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil
	}
	return text
}

func (c *console) get(ctx context.Context, client *http.Client, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.site+path, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(r)
}
