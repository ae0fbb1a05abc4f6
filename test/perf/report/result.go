package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// File has the measurements of one call of the benchmark.
type File struct {
	Runs []Run `json:"runs"`
}

// Run is one control plane process, measured with one mesh.
type Run struct {
	// Group names the set of scenarios: "small/main".
	Group string `json:"group"`
	Plane string `json:"plane"`
	// Date is when it began, in RFC 3339.
	Date    string          `json:"date"`
	Machine Machine         `json:"machine"`
	Mesh    workload.Params `json:"mesh"`
	Proxies int             `json:"proxies"`
	// Protocol is delta or sotw, Transport plain or tls, Source file, xds or xds-delta.
	Protocol  string `json:"protocol"`
	Transport string `json:"transport"`
	Source    string `json:"source"`
	// StartMS is the time until the xDS port was open, StartCPU the CPU seconds until then.
	StartMS  float64  `json:"start_ms"`
	StartCPU float64  `json:"start_cpu_s"`
	Rows     []Row    `json:"rows"`
	Endings  []string `json:"endings,omitempty"`
	// Errors make the run count as failed.
	Errors []string `json:"errors,omitempty"`
}

// Machine describes the machine of the run.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Model  string `json:"model,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Load is the load average before the run.
	Load string `json:"load,omitempty"`
}

// Row is one scenario.
type Row struct {
	// Scenario is its name, Number that of the list.
	Scenario string `json:"scenario"`
	Number   int    `json:"number"`
	// Events is the number of repetitions, Proxies the number of connected proxies, Reached the
	// number of proxies that were sent something.
	Events  int `json:"events"`
	Proxies int `json:"proxies"`
	Reached int `json:"reached"`
	// Latency is over all events: the medians of the first, the median and the last proxy, and the
	// 99th percentile and the maximum over all proxies of all events. In milliseconds.
	Latency Latency `json:"latency_ms"`
	// Missing is the number of deliveries that did not happen in time.
	Missing int   `json:"missing"`
	Usage   Usage `json:"usage"`
	// Memory is the memory after the scenario, if it was requested.
	Memory *target.Memory `json:"memory,omitempty"`
	// PeakRSS is the largest during it, in bytes.
	PeakRSS int64 `json:"peak_rss"`
	// Values are figures that only this scenario has; their names end in the unit.
	Values map[string]float64 `json:"values,omitempty"`
	Errors []string           `json:"errors,omitempty"`
}

// Latency is in milliseconds.
type Latency struct {
	N      int     `json:"n"`
	First  float64 `json:"first"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Last   float64 `json:"last"`
	Max    float64 `json:"max"`
}

// Usage is the total resource usage during a scenario.
type Usage struct {
	WallMS float64 `json:"wall_ms"`
	// CPU seconds: of the control plane, of the fleet, and of everything else on the machine, which
	// is noise.
	CPU      float64 `json:"cpu_s"`
	FleetCPU float64 `json:"fleet_cpu_s"`
	OtherCPU float64 `json:"other_cpu_s"`
	// AllocatedBytes and Allocations are the control plane's; 0 if it does not report them.
	AllocatedBytes float64 `json:"allocated_bytes"`
	Allocations    float64 `json:"allocations"`
	Messages       int64   `json:"messages"`
	Bytes          int64   `json:"bytes"`
	// Types is by short name: "CDS".
	Types map[string]fleet.Traffic `json:"types"`
}

// Other returns the average number of CPUs that other processes used.
func (u Usage) Other() float64 {
	if u.WallMS == 0 {
		return 0
	}
	return u.OtherCPU * 1000 / u.WallMS
}

// perEvent divides by the events and, if each, by the proxies too.
func (r Row) perEvent(v float64, each bool) float64 {
	n := max(1, r.Events)
	if each {
		n *= max(1, r.Proxies)
	}
	return v / float64(n)
}

// NewLatency sums up the latencies of each event, which are lists of milliseconds.
func NewLatency(events [][]float64) Latency {
	var all, first, median, last []float64
	for _, e := range events {
		if len(e) == 0 {
			continue
		}
		s := slices.Sorted(slices.Values(e))
		all = append(all, s...)
		first, median, last = append(first, s[0]), append(median, quantileOf(s, 0.5)), append(last, s[len(s)-1])
	}
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	return Latency{
		N: len(
			all,
		),
		First:  Median(first),
		Median: Median(median),
		P99:    quantileOf(all, 0.99),
		Last:   Median(last),
		Max:    all[len(all)-1],
	}
}

// quantileOf is of a sorted list.
func quantileOf(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median is of a list in any order, 0 if it is empty.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(list))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Write writes the file as JSON.
func (f *File) Write(path string) error {
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// Read reads files and puts their runs together.
func Read(paths ...string) (*File, error) {
	all := new(File)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		var f File
		if err := json.Unmarshal(b, &f); err != nil {
			return nil, fmt.Errorf("read results %s: %w", path, err)
		}
		all.Runs = append(all.Runs, f.Runs...)
	}
	return all, nil
}

// Failures returns the errors of all runs.
func (f *File) Failures() []string {
	var list []string
	for _, r := range f.Runs {
		for _, e := range r.Errors {
			list = append(list, r.Group+": "+e)
		}
		for _, row := range r.Rows {
			for _, e := range row.Errors {
				list = append(list, r.Group+" "+row.Scenario+": "+e)
			}
		}
	}
	return list
}
