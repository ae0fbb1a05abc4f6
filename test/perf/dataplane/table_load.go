package dataplane

import (
	"fmt"
	"io"
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

// PrintLoads prints the medians of loads as Markdown, in microseconds, each with its ratio to the
// same load with the other control plane.
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
			value := medianLoad(groups[row], c)
			fmt.Fprintf(w, " %.1f", value)
			if base := medianLoad(groups[other], c); other != row && base > 0 {
				fmt.Fprintf(w, " (%.2f)", value/base)
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
