package retired

import (
	"fmt"
	"strings"
)

// Page returns the whole text of docs/RETIRED.md, made from the tables of this package.
func Page() string {
	var p page
	p.writeText("# Flags, kinds, fields and annotations that Istio has removed",
		"This is the table of `internal/model/retired`, written by `go test ./internal/model/retired -update`. What is still used is accepted where that",
		"is safe, and always reported with its successor: flags in a warning at start; fields and annotations as a Problem",
		"(`/debug/problemz`, `pilotctl problems`, conditions) and by the validation webhook. How kinds are found is below.")
	p.writeText("## Flags of pilot-discovery",
		"They have no effect, except that an alias sets the flag of its new name.")
	p.writeFlags(DiscoveryFlags())
	p.writeText("## Flags of pilot-agent proxy",
		"A flag with a field of ProxyConfig still sets it. An explicit flag takes precedence over the mesh configuration, `PROXY_CONFIG` and the",
		"annotation `proxy.istio.io/config`: in Istio 1.0 to 1.4 the command line was the only source of these fields, and in later versions it",
		"was applied last. `--discoveryAddress` keeps its host, as it did in Istio 1.0. A port that control planes before Istio 1.6 served (8080,",
		"15003, 15005, 15007, 15010, 15011) becomes 15010 if controlPlaneAuthPolicy is NONE, else 15012.")
	p.writeFlags(AgentFlags())
	p.writeText("## Kinds",
		"An object of a retired kind is not used. In a folder that is an error, and a Problem. An API server has such objects only while the",
		"definition of the kind is still installed. The webhooks of the charts `base` and `istiod` then answer each creation and each change of",
		"one with a warning, with and without the label `istio.io/rev`. The control plane does not watch these kinds, so an object that is stored",
		"already is no Problem: `pilotctl analyze --cluster` and `pilotctl check-migration` find it.")
	p.writeHeader("group", "kind", "successor")
	for _, k := range Kinds() {
		kind := "all others"
		if k.Kind != "" {
			kind = code(k.Kind)
		}
		p.writeRow(code(k.Group), kind, k.Successor)
	}
	p.writeText("## Fields",
		"A retired field is an error of the object, as any unknown field is: the object is not used, because without the field it would mean",
		"something else. An object that an API server has accepted is used without it, with a warning. Retired fields of MeshConfig and",
		"ProxyConfig are left out, with a warning.")
	p.writeHeader("message", "field", "successor")
	for _, f := range Fields() {
		p.writeRow(code(f.Message), code(f.Name), f.Successor)
	}
	p.writeText("## Annotations", "A retired annotation is a warning of the object, with the effect that it no longer has.")
	p.writeHeader("annotation", "no longer done", "successor")
	for _, a := range Annotations() {
		name := a.Name
		if a.Prefix {
			name += "…"
		}
		p.writeRow(code(name), a.Lost, a.Successor)
	}
	return p.String()
}

// page collects Markdown.
type page struct{ strings.Builder }

// writeText writes a title and a paragraph of lines. A title follows an empty line, unless it is
// the first.
func (p *page) writeText(title string, lines ...string) {
	if p.Len() > 0 {
		p.WriteString("\n")
	}
	p.WriteString(title + "\n\n" + strings.Join(lines, "\n") + "\n")
}

// writeHeader writes the header of a table.
func (p *page) writeHeader(columns ...string) {
	p.WriteString("\n")
	p.writeRow(columns...)
	p.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

// writeRow writes a row of a table.
func (p *page) writeRow(cells ...string) { fmt.Fprintf(p, "| %s |\n", strings.Join(cells, " | ")) }

// writeFlags writes a table of flags, with the ProxyConfig field or other flag that each still
// sets, if any, and its successor.
func (p *page) writeFlags(list []Flag) {
	p.writeHeader("flag", "sets", "successor")
	for _, f := range list {
		sets := ""
		switch {
		case f.Field != "":
			sets = code("ProxyConfig." + f.Field)
		case f.Alias != "":
			sets = code("--" + f.Alias)
		}
		p.writeRow(code("--"+f.Name), sets, f.Successor)
	}
}

func code(name string) string { return "`" + name + "`" }
