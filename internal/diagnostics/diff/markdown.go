package diff

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// Markdown returns the report as GitHub shows it in a comment: a summary, then each group in a
// section that can be unfolded.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Mesh configuration: %d of %d proxies change\n", r.Changed, r.Proxies)
	r.writeProblemList(&b, "Problems that appear", r.NewProblems)
	r.writeProblemList(&b, "Problems that disappear", r.ResolvedProblems)
	if len(r.NewProxies) > 0 {
		fmt.Fprintf(&b, "\nNew proxies, not compared: %s\n", escapeMarkdown(nameList(r.NewProxies)))
	}
	if len(r.GoneProxies) > 0 {
		fmt.Fprintf(&b, "\nRemoved proxies, not compared: %s\n", escapeMarkdown(nameList(r.GoneProxies)))
	}
	for i := range r.Groups {
		r.Groups[i].writeMarkdown(&b)
	}
	return b.String()
}

// writeProblemList appends a list of Problems with a title to b as Markdown, and nothing if the
// list is empty.
func (r *Report) writeProblemList(b *strings.Builder, title string, list []debug.Problem) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n**%s**\n\n", title)
	for _, p := range list {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(p.String()))
	}
}

// writeMarkdown appends the group to b as a section that can be unfolded. Its heading has the
// proxies and the numbers of changes; calls, drains and changes follow. Endpoints that are implied
// by their clusters are left out (withoutImplied).
func (g *Group) writeMarkdown(b *strings.Builder) {
	counts := map[Operation]int{}
	for _, c := range g.Changes {
		counts[c.Operation]++
	}
	fmt.Fprintf(b, "\n<details><summary>%s: %d resources changed, %d added, %d removed</summary>\n\n",
		escapeMarkdown(nameList(g.Proxies)), counts[Changed], counts[Added], counts[Removed])
	if len(g.Calls) > 0 {
		b.WriteString("| call | before | after |\n|---|---|---|\n")
		for _, c := range g.Calls {
			fmt.Fprintf(b, "| %s | %s | %s |\n", escapeMarkdown(c.Call), markdownCell(c.Before), markdownCell(c.After))
		}
		b.WriteString("\n")
	}
	for _, d := range g.Drains {
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(d.String()))
	}
	if len(g.Drains) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("```diff\n")
	for _, c := range withoutImplied(g.Changes) {
		sign := map[Operation]string{Added: "+", Removed: "-", Changed: "@@"}[c.Operation]
		fmt.Fprintf(b, "%s %s\n", sign, inFence(c.title()))
		for _, f := range c.Fields {
			if f.Before != "" {
				fmt.Fprintf(b, "- %s: %s\n", inFence(f.Path), inFence(f.Before))
			}
			if f.After != "" {
				fmt.Fprintf(b, "+ %s: %s\n", inFence(f.Path), inFence(f.After))
			}
		}
		if c.OmittedFields > 0 {
			fmt.Fprintf(b, "# and %d more fields\n", c.OmittedFields)
		}
	}
	if g.OmittedChanges > 0 {
		fmt.Fprintf(b, "# and %d more resources\n", g.OmittedChanges)
	}
	b.WriteString("```\n\n</details>\n")
}

// markdownCell returns lines, escaped, in one cell of a table, separated by "<br>".
func markdownCell(lines []string) string {
	escaped := make([]string, len(lines))
	for i, l := range lines {
		escaped[i] = escapeMarkdown(l)
	}
	return strings.Join(escaped, "<br>")
}

// escapeMarkdown returns text that is shown as it is, also in a table and in a summary.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "[",
		"\\[", "]", "\\]", "\n", " ",
	).Replace(s)
}

// inFence returns text that cannot end a fenced block: newlines become spaces, and triple
// backquotes become apostrophes.
func inFence(s string) string { return strings.NewReplacer("```", "'''", "\n", " ").Replace(s) }
