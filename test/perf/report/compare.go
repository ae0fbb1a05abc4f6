package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// figure is one number of a scenario that two control planes are compared by.
type figure struct {
	name string
	of   func(r Row) float64
}

func allFigures() []figure {
	return []figure{
		{"CPU µs per proxy", func(r Row) float64 { return r.perEvent(r.Usage.CPU*1e6, true) }},
		{"KiB per proxy", func(r Row) float64 { return r.perEvent(float64(r.Usage.Bytes)/kib, true) }},
		{"messages per proxy", func(r Row) float64 { return r.perEvent(float64(r.Usage.Messages), true) }},
		{"alloc KiB per proxy", func(r Row) float64 { return r.perEvent(r.Usage.AllocatedBytes/kib, true) }},
		{"first proxy ms", func(r Row) float64 { return r.Latency.First }},
		{"median proxy ms", func(r Row) float64 { return r.Latency.Median }},
		{"p99 ms", func(r Row) float64 { return r.Latency.P99 }},
		{"last proxy ms", func(r Row) float64 { return r.Latency.Last }},
		{"peak RSS MiB", func(r Row) float64 { return float64(r.PeakRSS) / mib }},
		{"reached", func(r Row) float64 { return float64(r.Reached) }},
		{"missing", func(r Row) float64 { return float64(r.Missing) }},
		{"other CPUs", func(r Row) float64 { return r.Usage.Other() }},
	}
}

type place struct{ group, scenario string }

// rowsByScenario returns the rows of each scenario, and the scenarios in order.
func (f *File) rowsByScenario() (map[place][]Row, []place) {
	rows, order := map[place][]Row{}, []place{}
	for _, run := range f.Runs {
		for _, r := range run.Rows {
			p := place{run.Group, r.Scenario}
			if rows[p] == nil {
				order = append(order, p)
			}
			rows[p] = append(rows[p], r)
		}
	}
	return rows, order
}

// Compare prints the medians of two sets of runs side by side, with the spread of each in percent
// of its median, and the ratio of the first to the second. Scenarios that only one of them has are
// left out.
func Compare(w io.Writer, a, b *File) {
	for _, warning := range setupDifferences(a, b) {
		fmt.Fprintln(w, "WARNING:", warning)
	}
	rowsA, order := a.rowsByScenario()
	rowsB, _ := b.rowsByScenario()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "group\tscenario\tfigure\tA %s\t±%%\tB %s\t±%%\tA/B\tB/A\t\n", describePlane(a), describePlane(b))
	for _, p := range order {
		if rowsB[p] == nil {
			continue
		}
		for _, f := range rowFigures(rowsA[p], rowsB[p]) {
			x, y := medianOf(rowsA[p], f.of), medianOf(rowsB[p], f.of)
			if x.middle == 0 && y.middle == 0 {
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%.4g\t%.0f\t%.4g\t%.0f\t%s\t%s\t\n", p.group, p.scenario,
				f.name, x.middle, x.spread, y.middle, y.spread, formatRatio(x.middle, y.middle),
				formatRatio(y.middle, x.middle))
		}
	}
	t.Flush()
}

// rowFigures are the common figures, and further figures of both.
func rowFigures(a, b []Row) []figure {
	list := allFigures()
	for _, name := range slices.Sorted(maps.Keys(a[0].Values)) {
		if _, ok := b[0].Values[name]; ok {
			list = append(list, figure{name, func(r Row) float64 { return r.Values[name] }})
		}
	}
	return list
}

type middle struct{ middle, spread float64 }

func medianOf(rows []Row, of func(Row) float64) middle {
	values := make([]float64, len(rows))
	for i := range rows {
		values[i] = of(rows[i])
	}
	m := middle{middle: Median(values)}
	if m.middle != 0 {
		m.spread = (slices.Max(values) - slices.Min(values)) / 2 / m.middle * 100
	}
	return m
}

func formatRatio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", a/b)
}

func describePlane(f *File) string {
	if len(f.Runs) == 0 {
		return "?"
	}
	return f.Runs[0].Plane
}

// setupDifferences returns the differences between the set-ups of two sets of runs.
func setupDifferences(a, b *File) []string {
	var list []string
	for _, x := range a.Runs {
		for _, y := range b.Runs {
			if x.Group != y.Group {
				continue
			}
			if x.Mesh != y.Mesh || x.Proxies != y.Proxies || x.Protocol != y.Protocol || x.Transport != y.Transport ||
				x.Source != y.Source {
				list = append(list, x.Group+": the runs were set up differently")
			}
			if x.Machine.Model != y.Machine.Model || x.Machine.CPUs != y.Machine.CPUs {
				list = append(list, x.Group+": the runs were on different machines")
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
