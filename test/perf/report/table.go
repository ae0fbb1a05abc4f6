package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// PrintTable prints the runs for people. Figures are per event, those in the columns marked /proxy also
// divided by the proxies.
func (f *File) PrintTable(w io.Writer) {
	for _, r := range f.Runs {
		r.printTable(w)
	}
}

func (r *Run) printTable(w io.Writer) {
	fmt.Fprintf(
		w,
		"\n%s: %s, %d services x %d endpoints in %d namespaces%s, %d proxies, %s over %s, config by %s; start %.0f ms, %.2f CPU s\n",
		r.Group,
		r.Plane,
		r.Mesh.Services,
		r.Mesh.Endpoints,
		r.Mesh.Namespaces,
		scopeOf(r),
		r.Proxies,
		r.Protocol,
		r.Transport,
		r.Source,
		r.StartMS,
		r.StartCPU,
	)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(
		t,
		"#\tscenario\tn\treached\tCPU ms\tµs/proxy\tmsgs/proxy\tKiB/proxy\tallocs\talloc KiB/proxy\tfirst ms\tmedian\tp99\tlast\tfleet CPU\tother\tmissing\t",
	)
	for _, x := range r.Rows {
		u := x.Usage
		fmt.Fprintf(
			t,
			"%d\t%s\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%d\t\n",
			x.Number,
			x.Scenario,
			x.Events,
			x.Reached,
			x.perEvent(u.CPU*1e3, false),
			x.perEvent(u.CPU*1e6, true),
			x.perEvent(float64(u.Messages), true),
			x.perEvent(
				float64(u.Bytes)/kib,
				true,
			),
			x.perEvent(u.Allocations, false),
			x.perEvent(u.AllocatedBytes/kib, true),
			x.Latency.First,
			x.Latency.Median,
			x.Latency.P99,
			x.Latency.Last,
			x.perEvent(u.FleetCPU*1e3, false),
			u.Other(),
			x.Missing,
		)
	}
	t.Flush()
	for _, x := range r.Rows {
		x.printNotes(w)
	}
	for _, e := range r.Endings {
		fmt.Fprintln(w, "  streams ended by the control plane:", e)
	}
	for _, e := range r.Errors {
		fmt.Fprintln(w, "  FAILED:", e)
	}
}

func scopeOf(r *Run) string {
	if r.Mesh.Scope == "" {
		return ""
	}
	return " (scope " + string(r.Mesh.Scope) + ")"
}

// printNotes prints values without a column.
func (r Row) printNotes(w io.Writer) {
	var parts []string
	if m := r.Memory; m != nil {
		parts = append(
			parts,
			fmt.Sprintf("PSS %d MiB, RSS %d, peak %d, live heap %d", m.PSS/mib, m.RSS/mib, r.PeakRSS/mib, m.Heap/mib),
		)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, r.Values[name]))
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "  %s: %s\n", r.Scenario, strings.Join(parts, "; "))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(w, "  %s: FAILED: %s\n", r.Scenario, e)
	}
}
