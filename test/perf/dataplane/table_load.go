package dataplane

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/report"
)

// loadColumn is a figure of the table of loads, in microseconds.
type loadColumn struct {
	title string
	value func(Load) time.Duration
}

func loadColumns() []loadColumn {
	return []loadColumn{
		{"p50", func(l Load) time.Duration { return l.P50 }},
		{"p90", func(l Load) time.Duration { return l.P90 }},
		{"p99", func(l Load) time.Duration { return l.P99 }},
		{"p99.9", func(l Load) time.Duration { return l.P999 }},
		{"CPU of the client's Envoy", func(l Load) time.Duration { return l.ClientCPU }},
		{"CPU of the server's Envoy", func(l Load) time.Duration { return l.ServerCPU }},
	}
}

// loadRow identifies a row of the table.
type loadRow struct {
	variant  Variant
	protocol Protocol
	rate     int
}

// PrintLoads prints the medians of loads as Markdown, in microseconds. In parentheses are the median and
// the quartiles of the ratios to the same load with the other control plane, each within a round.
func PrintLoads(w io.Writer, loads []Load) {
	if len(loads) == 0 {
		return
	}
	fmt.Fprint(w, "| configuration of | protocol | requests/s |")
	for _, c := range loadColumns() {
		fmt.Fprintf(w, " %s, µs |", c.title)
	}
	fmt.Fprintf(w, " failed | other CPUs |\n|---|---|---|%s---|---|\n", strings.Repeat("---|", len(loadColumns())))
	groups, order := map[loadRow][]Load{}, []loadRow{}
	for _, l := range loads {
		row := loadRow{l.Variant, l.Protocol, l.Rate}
		if groups[row] == nil {
			order = append(order, row)
		}
		groups[row] = append(groups[row], l)
	}
	reference := loads[0].Variant.Plane
	for _, l := range loads {
		if l.Variant.Plane != loads[0].Variant.Plane {
			reference = l.Variant.Plane
		}
	}
	for _, row := range order {
		fmt.Fprintf(w, "| %s | %s | %d |", row.variant.name(), row.protocol, row.rate)
		other := row
		other.variant.Plane = reference
		for _, c := range loadColumns() {
			fmt.Fprintf(w, " %.1f", medianLoad(groups[row], c))
			if other != row {
				printLoadRatios(w, groups[row], groups[other], c)
			}
			fmt.Fprint(w, " |")
		}
		failed, busy := 0, 0.0
		for _, l := range groups[row] {
			failed += l.Failed
			busy += l.Other / float64(len(groups[row]))
		}
		fmt.Fprintf(w, " %d | %.1f |\n", failed, busy)
	}
}

func medianLoad(loads []Load, c loadColumn) float64 {
	var values []float64
	for _, l := range loads {
		values = append(values, float64(c.value(l))/float64(time.Microsecond))
	}
	return report.Median(values)
}

// printLoadRatios prints the ratios of a figure of a to that of b. a and b are in the order of the rounds. It
// prints nothing if the figure of b is 0 in all rounds.
func printLoadRatios(w io.Writer, a, b []Load, c loadColumn) {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if base := c.value(b[i]); base > 0 {
			ratios = append(ratios, float64(c.value(a[i]))/float64(base))
		}
	}
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	quartile := func(n int) float64 { return ratios[min(len(ratios)-1, n*len(ratios)/4)] }
	fmt.Fprintf(w, " (%.2f, %.2f–%.2f)", report.Median(ratios), quartile(1), quartile(3))
}
