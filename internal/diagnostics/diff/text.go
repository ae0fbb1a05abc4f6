package diff

import (
	"fmt"
	"strings"
)

// shownProxies limits the names of one group in text.
const shownProxies = 5

// Text returns the report for a terminal. It has the number of proxies that change, the groups,
// then the proxies that were not compared, then new (+) and resolved (-) problems. Empty parts are
// left out.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d proxies change\n", r.Changed, r.Proxies)
	for i := range r.Groups {
		b.WriteString("\n")
		r.Groups[i].writeText(&b)
	}
	for _, list := range []struct {
		title string
		names []string
	}{{"new proxies, not compared", r.NewProxies}, {"removed proxies, not compared", r.GoneProxies}} {
		if len(list.names) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n", list.title, nameList(list.names))
		}
	}
	if len(r.NewProblems)+len(r.ResolvedProblems) > 0 {
		b.WriteString("\nproblems\n")
	}
	for _, p := range r.NewProblems {
		fmt.Fprintf(&b, "  + %s\n", p)
	}
	for _, p := range r.ResolvedProblems {
		fmt.Fprintf(&b, "  - %s\n", p)
	}
	return b.String()
}

// nameList returns the first names of a list and the number of the others. At most shownProxies are
// named.
func nameList(names []string) string {
	shown := names[:min(len(names), shownProxies)]
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// writeText writes the group for a terminal: the number and names of its proxies as a heading, then
// its changes, drains and calls. Endpoints that are implied by their clusters are left out
// (withoutImplied).
func (g *Group) writeText(b *strings.Builder) {
	noun := "proxies"
	if len(g.Proxies) == 1 {
		noun = "proxy"
	}
	fmt.Fprintf(b, "%d %s: %s\n", len(g.Proxies), noun, nameList(g.Proxies))
	for _, c := range withoutImplied(g.Changes) {
		fmt.Fprintf(b, "  %s\n", c.title())
		for _, f := range c.Fields {
			fmt.Fprintf(b, "    %s\n", f)
		}
		if c.OmittedFields > 0 {
			fmt.Fprintf(b, "    … and %d more fields\n", c.OmittedFields)
		}
	}
	if g.OmittedChanges > 0 {
		fmt.Fprintf(b, "  … and %d more resources\n", g.OmittedChanges)
	}
	g.writeDrains(b)
	if len(g.Calls) > 0 {
		b.WriteString("  calls\n")
	}
	for _, c := range g.Calls {
		fmt.Fprintf(b, "    %s\n", c.Call)
		for _, e := range c.Before {
			fmt.Fprintf(b, "      - %s\n", e)
		}
		for _, e := range c.After {
			fmt.Fprintf(b, "      + %s\n", e)
		}
	}
}

// writeDrains writes a paragraph for each distinct effect, with the listeners and clusters that
// have it. It writes nothing if connections are not drained.
func (g *Group) writeDrains(b *strings.Builder) {
	if len(g.Drains) > 0 {
		b.WriteString("  connections\n")
	}
	written := map[string]bool{}
	for _, d := range g.Drains {
		if written[d.Effect] {
			continue
		}
		written[d.Effect] = true
		fmt.Fprintf(b, "    %s\n", d.Effect)
		for _, x := range g.Drains {
			if x.Effect == d.Effect {
				fmt.Fprintf(b, "      %s\n", x.subject())
			}
		}
	}
}

// withoutImplied returns the changes without the endpoints that are added or removed together with
// their cluster, which follow from it. In the result these clusters have the type "CDS, EDS"; list
// is not modified.
func withoutImplied(list []Change) []Change {
	type operationOn struct {
		operation Operation
		name      string
	}
	assignments := map[operationOn]bool{}
	clusters := map[operationOn]bool{}
	for _, c := range list {
		switch c.Type {
		case "CDS":
			clusters[operationOn{c.Operation, c.Name}] = true
		case "EDS":
			assignments[operationOn{c.Operation, c.Name}] = true
		}
	}
	var out []Change
	for _, c := range list {
		at := operationOn{c.Operation, c.Name}
		switch {
		case c.Operation == Changed:
		case c.Type == "EDS" && clusters[at]:
			continue
		case c.Type == "CDS" && assignments[at]:
			c.Type = "CDS, EDS"
		}
		out = append(out, c)
	}
	return out
}

// title returns the change in one line: "RDS 9080 changed, by VirtualService/shop/reviews".
func (c *Change) title() string {
	text := fmt.Sprintf("%s %s %s", c.Type, c.Name, c.Operation)
	if len(c.Objects) > 0 {
		text += ", by " + strings.Join(c.Objects, ", ")
	}
	return text
}

// String returns the listener or cluster, the chain and the effect.
func (d Drain) String() string { return d.subject() + ": " + d.Effect }

// subject returns the listener or cluster, and the chain if it is not all of the listener.
func (d Drain) subject() string {
	if d.Chain == "" {
		return d.Resource
	}
	return d.Resource + ", filter chain " + d.Chain
}
