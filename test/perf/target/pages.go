package target

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pageTime bounds how long a page may take; a garbage collection is part of some.
const pageTime = time.Minute

func fetchPage(url string) ([]byte, error) {
	c := http.Client{Timeout: pageTime}
	defer c.CloseIdleConnections()
	r, err := c.Get(url)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, r.Status)
	}
	return b, err
}

// collectGarbage has the process collect garbage, twice: the first collection leaves something to
// finalizers and pools. It returns the live heap, or 0 if it is unavailable.
func (x *Process) collectGarbage() (heap int64) {
	for range 2 {
		b, err := fetchPage(x.HeapURL())
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(b), "# HeapAlloc = ")
		line, _, _ := strings.Cut(rest, "\n")
		heap, _ = strconv.ParseInt(line, 10, 64)
	}
	return heap
}

// Metrics are the sums of the series of each metric.
type Metrics map[string]float64

// Metrics reads the counters of the process; nil if it has none.
func (x *Process) Metrics() Metrics {
	b, err := fetchPage(x.MetricsURL())
	if err != nil {
		return nil
	}
	m := Metrics{}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[name] += v
		}
	}
	return m
}

// Names of metrics that every Go program with Prometheus' client has.
const (
	AllocatedBytes   = "go_memstats_alloc_bytes_total"
	AllocatedObjects = "go_memstats_mallocs_total"
	Goroutines       = "go_goroutines"
)

// Classes is our metric of how many different kinds of proxies there are.
const Classes = "meshpilot_proxy_classes"
