package scenario

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
)

// verifyNewcomers connects new proxies of the same nodes as some proxies that have followed all
// changes: both must have the same resources.
func verifyNewcomers(b *bench, row *report.Row) error {
	n := min(spares, b.proxies)
	r := b.fleet.DisconnectProxies(fleet.IndexRange(b.proxies, b.proxies+n), true)
	row.Events = n
	for i := range n { // their nodes may have changed
		b.fleet.CopyNode(i, b.proxies+i)
	}
	p := b.beginMeasurement()
	r.Start()
	err := b.waitFor(r.Done, "newcomers in sync")
	b.awaitQuiet()
	b.endMeasurement(p, row)
	if err != nil {
		return err
	}
	for i := range n {
		if d := b.fleet.Difference(i, b.proxies+i); len(d) > 0 {
			return fmt.Errorf("resources of proxy %d differ from those of a new proxy: %s", i, strings.Join(d, "; "))
		}
	}
	return nil
}
