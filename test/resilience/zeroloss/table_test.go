package zeroloss

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
)

// table prints the results of requests, by event and by kind (lost/sent, summed over hosts), and
// the number of clusters, parts of listeners and whole listeners that sidecars replaced.
func (s *stage) table(tally load.Tally, events []string) string {
	var b strings.Builder
	all := tally.Sum(nil)
	fmt.Fprintf(&b, "%d of %d requests lost in %s, %.0f a second\n", all.Failed, all.Sent, tally.Elapsed.Round(time.Second), tally.Rate())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	header := []string{"event", "times", "seen after", "at most", "clusters", "chains", "listeners"}
	for _, k := range echo.Kinds() {
		header = append(header, string(k))
	}
	fmt.Fprintln(w, strings.Join(append(header, "all", "slowest"), "\t"))
	for _, e := range append(events, "") {
		s.line(w, tally, e)
	}
	_ = w.Flush() // to a strings.Builder
	return b.String()
}

// line writes the row of an event; that of all events if it is "".
func (s *stage) line(w *tabwriter.Writer, tally load.Tally, event string) {
	mine := func(c load.Cell) bool { return event == "" || c.Event == event }
	if event == "" {
		fmt.Fprint(w, "all\t\t\t\t\t\t")
	} else {
		median, most := spread(s.took[event])
		c := s.churn[event]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d", event, len(s.took[event]), median, most, c.clusters, c.chains, c.listeners)
	}
	for _, k := range echo.Kinds() {
		n := tally.Sum(func(c load.Cell) bool { return mine(c) && c.Kind == k })
		fmt.Fprintf(w, "\t%d/%d", n.Failed, n.Sent)
	}
	n := tally.Sum(mine)
	fmt.Fprintf(w, "\t%d/%d\t%s\n", n.Failed, n.Sent, n.Slowest.Round(time.Millisecond))
}

// spread returns the median and the longest of some durations.
func spread(list []time.Duration) (median, most time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2].Round(time.Millisecond), sorted[len(sorted)-1].Round(time.Millisecond)
}
