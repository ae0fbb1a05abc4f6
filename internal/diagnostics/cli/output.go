package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// The formats of --output. short is istioctl's name of table.
const (
	tableFormat = "table"
	shortFormat = "short"
	wideFormat  = "wide"
	nameFormat  = "name"
	jsonFormat  = "json"
	yamlFormat  = "yaml"
)

// outputFormats returns the formats of --output.
func outputFormats() []string {
	return []string{tableFormat, wideFormat, nameFormat, jsonFormat, yamlFormat, shortFormat}
}

// answer is the result of a command: the data for JSON and YAML output, and the rows for table
// output.
type answer struct {
	whole  any
	header string
	rows   [][]string
	// wide is the number of the last columns that only --output wide shows.
	wide int
	// name returns the line of --output name for a row (default: its first column).
	name func(row []string) string
	// none is printed instead of the table if there are no rows.
	none string
}

// printAnswer prints an answer in the format of --output, which checkFormat has checked. A format
// other than json, yaml and name is a table.
func (a *pageClient) printAnswer(c *cobra.Command, x answer) error {
	out := c.OutOrStdout()
	switch a.output {
	case jsonFormat:
		b, err := json.MarshalIndent(x.whole, "", "    ")
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		_, err = fmt.Fprintln(out, string(b))
		return err
	case yamlFormat:
		b, err := yaml.Marshal(x.whole)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = out.Write(b)
		return err
	case nameFormat:
		return writeNames(out, x)
	default:
		return a.printTable(out, x)
	}
}

// writeNames writes x.name of each row, by default its first cell. Equal names of adjacent rows are
// written once.
func writeNames(w io.Writer, x answer) error {
	if x.name == nil {
		x.name = func(row []string) string { return row[0] }
	}
	names := make([]string, len(x.rows))
	for i, row := range x.rows {
		names[i] = x.name(row)
	}
	for _, n := range slices.Compact(names) {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}

// printTable writes the rows in aligned columns below the header, which --no-headers omits. Without
// rows it writes x.none instead, or the header alone if x.none is empty. The last x.wide columns
// are written in the format wide only. States are colored if the output is a terminal (isColored).
func (a *pageClient) printTable(w io.Writer, x answer) error {
	if len(x.rows) == 0 && x.none != "" {
		_, err := fmt.Fprintln(w, x.none)
		return err
	}
	lines := x.rows
	if !a.noHeaders {
		lines = append([][]string{strings.Split(x.header, "\t")}, x.rows...)
	}
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 8, 3, ' ', 0)
	for _, row := range lines {
		if a.output != wideFormat {
			row = row[:len(row)-x.wide]
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, a.colored(text.String()))
	return err
}

// age returns how long a time is ago, as kubectl shows it: "5m", "3h20m". It returns "-" for the
// zero time, and "0s" for a time after now.
func age(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}

// isTable reports whether --output is a format of tables: table, wide or short.
func (a *pageClient) isTable() bool {
	return a.output == tableFormat || a.output == shortFormat || a.output == wideFormat
}

// ANSI colors of states.
const (
	red, yellow, green = "31", "33", "32"
)

// stateColors returns the color code of each text in a cell that is colored.
func stateColors() map[string]string {
	return map[string]string{
		"ERROR": red, "QUARANTINED": red, "REFUSED": red, "UNHEALTHY": red, "FAILED": red, "fail": red, "Error": red,
		"STALE": yellow, "NOT SENT": yellow, "DRAINING": yellow, "DEGRADED": yellow, "warn": yellow, "Warning": yellow,
		"skip":   yellow,
		"SYNCED": green, "HEALTHY": green, "RESOLVED": green, "OK": green, "pass": green,
	}
}

// isColored reports whether the output is a terminal, NO_COLOR is not set and TERM is not "dumb".
func (a *pageClient) isColored() bool {
	return a.environment.Terminal && a.environment.variable("NO_COLOR") == "" &&
		a.environment.variable("TERM") != "dumb"
}

// inColor returns the text in a color, if the output is colored.
func (a *pageClient) inColor(text, color string) string {
	if color == "" || !a.isColored() {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colored returns the text of a table with colored states. The text is returned unchanged if the
// output is not colored.
func (a *pageClient) colored(text string) string {
	if !a.isColored() {
		return text
	}
	colors := stateColors()
	var states []string
	for s := range colors {
		states = append(states, regexp.QuoteMeta(s))
	}
	slices.SortFunc(states, func(x, y string) int { return len(y) - len(x) })
	cell := regexp.MustCompile(`(?m)(^|  )(` + strings.Join(states, "|") + `)( \(|  |$)`)
	// Neighbours share the spaces between them, so that one pass colors every other one of them.
	for range 2 {
		text = cell.ReplaceAllStringFunc(text, func(s string) string {
			m := cell.FindStringSubmatch(s)
			return m[1] + a.inColor(m[2], colors[m[2]]) + m[3]
		})
	}
	return text
}
