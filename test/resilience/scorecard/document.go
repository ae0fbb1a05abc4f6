package scorecard

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Document is the result of every check that was ever run, by the number of the check.
type Document map[int]Row

const (
	columns = 7 // of the table of results
	nothing = "–"
)

// rowPattern matches a row of the table of results, which begins with a bold number.
var rowPattern = regexp.MustCompile(`^\| \*\*(\d+)\*\* \|`)

// Parse reads the rows of a rendered document.
func Parse(text string) (Document, error) {
	d := Document{}
	for line := range strings.Lines(text) {
		m := rowPattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
		if len(cells) != columns {
			return nil, fmt.Errorf("row %s has %d cells, want %d", m[1], len(cells), columns)
		}
		for i, c := range cells {
			if cells[i] = strings.TrimSpace(c); cells[i] == nothing {
				cells[i] = ""
			}
		}
		number, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		if _, duplicate := d[number]; duplicate {
			return nil, fmt.Errorf("there are two rows of check %d", number)
		}
		d[number] = Row{Result: cells[2], Size: cells[3], Measured: cells[4], Run: cells[5], Peer: cells[6]}
	}
	return d, nil
}

const preamble = `# Scorecard

Written by ` + "`make scorecard`" + `; do not edit. It has the result of each reliability check: the size at which it really ran, what was
measured, when, of which commit (the newest one that changed what is shipped) and how busy the machine was. A row that a run left
out keeps its date. "passed at this size" is less than "passed", which only a soak of a check without gaps can earn. "failed" stays
until a later run passes.

    make scorecard                                   # every check, at the size of make test
    make scorecard SIZE=hour                         # what an hour or two on two cores can do
    make scorecard SIZE=soak CHECKS=1                # the full size, where one machine can hold it
    make scorecard CHECKS=3,7 PEER=/path/to/istiod   # these checks, and the same of another control plane

The first table has the results. The second has what a full proof requires, which tests are run and what they leave out: compare the size
that ran with the size that is required before you rely on "passed".

`

// Render returns the document: one row for each check, in the order of the table.
func (d Document) Render(checks []Check) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString(
		"## Results\n\n| # | Check | Result | Size that ran | Measured | Run | istiod |\n|---|---|---|---|---|---|---|\n",
	)
	for _, c := range checks {
		r := d[c.Number]
		if r.Result == "" {
			r.Result = NotRun
		}
		switch {
		case c.NotApplicable != "":
			r = Row{Result: "does not apply: " + c.NotApplicable}
		case len(c.Tests) == 0:
			r = Row{Result: NotRun + ": no test yet"}
		}
		fmt.Fprintf(&b, "| **%d** | %s | %s | %s | %s | %s | %s |\n", c.Number, escapeCell(c.Title),
			escapeCell(r.Result), escapeCell(r.Size), escapeCell(r.Measured), escapeCell(r.Run),
			escapeCell(r.Peer))
	}
	b.WriteString("\n## What is required, and what is run\n\n| # | Required | Tests | Not shown |\n|---|---|---|---|\n")
	for _, c := range checks {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", c.Number, escapeCell(c.Requirement),
			testLinks(c.Tests), escapeCell(c.Limits))
	}
	return b.String()
}

// testLinks returns the tests of a check, by package.
func testLinks(tests []Test) string {
	if len(tests) == 0 {
		return nothing
	}
	list := make([]string, len(tests))
	for i, t := range tests {
		list[i] = fmt.Sprintf("[%s](../%s)", t.Name, t.Package)
	}
	return strings.Join(list, ", ")
}

// escapeCell returns a text that does not break a row.
func escapeCell(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if text == "" {
		return nothing
	}
	return text
}
