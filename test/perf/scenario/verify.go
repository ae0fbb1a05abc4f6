package scenario

import (
	"fmt"
	"strings"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
)

// verifyNewcomers has newcomers connect that are of the same nodes as some proxies that followed
// all changes: both must hold the same.
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
			return fmt.Errorf("proxy %d does not hold what a newcomer is sent: %s", i, strings.Join(d, "; "))
		}
	}
	return nil
}
