package dataplane

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/test/perf/report"
)

// column is a figure of the table.
type column struct {
	title  string
	format string
	value  func(Size) float64
}

func columns() []column {
	list := []column{
		{"resident, MiB", "%.1f", func(s Size) float64 { return mebibytes(s.Resident) }},
		{"allocated, MiB", "%.1f", func(s Size) float64 { return mebibytes(s.Allocated) }},
		{"ready after, ms", "%.0f", func(s Size) float64 { return s.Ready.Seconds() * 1e3 }},
		{"CPU until ready, ms", "%.0f", func(s Size) float64 { return s.CPU.Seconds() * 1e3 }},
		{"received, KiB", "%.0f", func(s Size) float64 { return float64(s.Received) / (1 << 10) }},
		{"dump, KiB", "%.0f", func(s Size) float64 { return float64(s.dumped("")) / (1 << 10) }},
	}
	for _, kind := range []string{"Listeners", "Clusters", "Endpoints", "Routes"} {
		list = append(list, column{strings.ToLower(kind), "%.0f", func(s Size) float64 {
			return float64(s.dumped(kind)) / (1 << 10)
		}})
	}
	return list
}

// dumped returns the bytes of the dump of resources of a kind, all if it is "".
func (s Size) dumped(kind string) (bytes int64) {
	for name, n := range s.Dump {
		if kind == "" || strings.HasSuffix(name, "."+kind+"ConfigDump") {
			bytes += n
		}
	}
	return bytes
}

// PrintTable prints the medians of sizes as Markdown. Below the rows of a mesh are the ratios of the
// first control plane to the last one, where both have a figure.
func PrintTable(w io.Writer, sizes []Size) {
	all := columns()
	fmt.Fprint(w, "| services | configuration of |")
	for _, c := range all {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprintf(w, "\n|---|---|%s\n", strings.Repeat("---|", len(all)))
	for len(sizes) > 0 {
		n := sizes[0].Services
		end := slices.IndexFunc(sizes, func(s Size) bool { return s.Services != n })
		if end < 0 {
			end = len(sizes)
		}
		printMesh(w, sizes[:end])
		sizes = sizes[end:]
	}
}

// printMesh prints the rows of one mesh.
func printMesh(w io.Writer, sizes []Size) {
	first, last := sizes[0].Variant.Plane, sizes[len(sizes)-1].Variant.Plane
	var order []Variant
	medians := map[Variant][]float64{}
	for _, s := range sizes {
		if _, ok := medians[s.Variant]; ok {
			continue
		}
		order = append(order, s.Variant)
		medians[s.Variant] = mediansOf(sizes, s.Variant)
	}
	for _, v := range order {
		printRow(w, sizes[0].Services, v.name(), medians[v])
	}
	if first == last {
		return
	}
	for _, v := range order {
		a, b := medians[v], medians[Variant{Plane: last, Features: v.Features}]
		if v.Plane == first && b != nil {
			printRatios(w, sizes[0].Services, v.name()+" : "+Variant{Plane: last, Features: v.Features}.name(), a, b)
		}
	}
}

func mediansOf(sizes []Size, v Variant) []float64 {
	var list []float64
	for _, c := range columns() {
		var values []float64
		for _, s := range sizes {
			if s.Variant == v {
				values = append(values, c.value(s))
			}
		}
		list = append(list, report.Median(values))
	}
	return list
}

func printRow(w io.Writer, services int, name string, values []float64) {
	fmt.Fprintf(w, "| %d | %s |", services, name)
	for i, c := range columns() {
		if values[i] == 0 {
			fmt.Fprint(w, " |")
			continue
		}
		fmt.Fprintf(w, " "+c.format+" |", values[i])
	}
	fmt.Fprintln(w)
}

func printRatios(w io.Writer, services int, name string, a, b []float64) {
	fmt.Fprintf(w, "| %d | %s |", services, name)
	for i := range a {
		if a[i] == 0 || b[i] == 0 {
			fmt.Fprint(w, " |")
			continue
		}
		fmt.Fprintf(w, " %.2f |", a[i]/b[i])
	}
	fmt.Fprintln(w)
}
