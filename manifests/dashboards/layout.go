package main

import "strings"

// page is a dashboard as this package's tables describe it.
type page struct {
	name, title, description string
	variables                []variable
	rows                     []row
}

// row is a titled group of graphs.
type row struct {
	title  string
	graphs []graph
}

// graph is a panel. Its kind is timeseries unless it is set.
type graph struct {
	title, kind, unit, help string
	queries                 []query
}

// query is an expression of PromQL and the legend of its series.
type query struct{ expr, legend string }

// Kinds of graphs besides time series, and the columns that a graph of each kind takes.
const (
	number = "stat"
	table  = "table"

	columns     = 24
	graphWidth  = 8
	graphHeight = 8
	numberWidth = 4
)

// source is the data source that the user selects.
func source() *datasource { return &datasource{Type: "prometheus", UID: "${datasource}"} }

// selection returns a variable with the values of a label, of which several or all may be chosen.
func selection(label, metric string) variable {
	return variable{
		Name: label, Label: label, Type: "query", Query: "label_values(" + metric + ", " + label + ")",
		Datasource: source(), Refresh: 2, IncludeAll: true, AllValue: ".*", Multi: true,
	}
}

// dashboard returns the page in Grafana's format.
func (p page) dashboard() dashboard {
	d := dashboard{
		UID:         "meshpilot-" + p.name,
		Title:       "meshpilot / " + p.title,
		Description: p.description,
		Tags:        []string{"meshpilot"},
		Links: []link{{
			Type:       "dashboards",
			Title:      "meshpilot",
			Tags:       []string{"meshpilot"},
			AsDropdown: true,
			KeepTime:   true,
		}},
		Refresh:       "30s",
		SchemaVersion: 39,
		Time:          timeRange{From: "now-1h", To: "now"},
		Templating: templating{List: append(
			[]variable{{Name: "datasource", Label: "data source", Type: "datasource", Query: "prometheus"}}, p.variables...,
		)},
	}
	y := 0
	for _, r := range p.rows {
		d.Panels = append(d.Panels, panel{
			ID: len(d.Panels) + 1, Type: "row", Title: r.title, GridPos: gridPos{H: 1, W: columns, X: 0, Y: y},
		})
		y++
		x, height := 0, 0
		for _, g := range r.graphs {
			if x+g.width() > columns {
				x, y, height = 0, y+height, 0
			}
			height = max(height, g.height())
			d.Panels = append(d.Panels, g.panel(len(d.Panels)+1, gridPos{H: g.height(), W: g.width(), X: x, Y: y}))
			x += g.width()
		}
		y += height
	}
	return d
}

func (g graph) width() int {
	if g.kind == number {
		return numberWidth
	}
	return graphWidth
}

func (g graph) height() int {
	if g.kind == number {
		return graphHeight / 2
	}
	return graphHeight
}

// panel returns the graph in Grafana's format. Numbers and tables have the newest values only.
func (g graph) panel(id int, at gridPos) panel {
	kind := g.kind
	if kind == "" {
		kind = "timeseries"
	}
	zero := 0
	p := panel{
		ID: id, Type: kind, Title: g.title, Description: g.help, GridPos: at, Datasource: source(),
		FieldConfig: &fieldConfig{Defaults: defaults{Unit: g.unit}, Overrides: []any{}},
	}
	if kind == "timeseries" {
		p.FieldConfig.Defaults.Min = &zero
		p.Options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom"},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
	for i, q := range g.queries {
		t := target{
			RefID:        string(rune('A' + i)),
			Expr:         strings.Join(strings.Fields(q.expr), " "),
			LegendFormat: q.legend,
			Instant:      kind != "timeseries",
		}
		if kind == table {
			t.Format = "table"
		}
		p.Targets = append(p.Targets, t)
	}
	return p
}

// one returns the only query of a graph.
func one(expr, legend string) []query { return []query{{expr, legend}} }

// quantiles returns queries for the median, the 90th and the 99th percentile of a histogram, for each
// value of a label unless it is empty.
func quantiles(histogram, selector, label string) []query {
	by, legend := "le", ""
	if label != "" {
		by, legend = "le, "+label, " {{"+label+"}}"
	}
	var list []query
	for _, q := range []struct{ value, name string }{{"0.5", "p50"}, {"0.9", "p90"}, {"0.99", "p99"}} {
		list = append(list, query{
			"histogram_quantile(" + q.value + ", sum by (" + by + ") " +
				"(rate(" + histogram + "_bucket{" + selector + "}[$__rate_interval])))",
			q.name + legend,
		})
	}
	return list
}

// rate returns the sum of a counter's rates, for each value of a label unless it is empty.
func rate(counter, selector, label string) string {
	sum := "sum"
	if label != "" {
		sum = "sum by (" + label + ")"
	}
	return sum + " (rate(" + counter + "{" + selector + "}[$__rate_interval]))"
}
