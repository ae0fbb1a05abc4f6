package facts

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// changes is the number of repetitions of each change.
const changes = 6

// fact is a change and the kinds of requests that it loses.
type fact struct {
	name   string
	first  func(*config)
	change func(c *config, i int)
	// took selects the counters that increase when Envoy has applied a change.
	took string
	// lost are the kinds of lost requests.
	lost []echo.Kind
}

const (
	clusterModified = "^cluster_manager.cluster_modified$"
	listenerChanged = "^listener_manager.listener_(in_place_updated|modified)$"
)

// facts is the table. The facts about a listener with plain TCP also hold for TLS passthrough.
func facts() []fact {
	return []fact{
		// A cluster that changes in place drops its idle connections; the busy ones end when they are done.
		{name: "cluster, circuit breakers", took: clusterModified,
			change: func(c *config, i int) { c.MaxConnections = 1000 + i }},
		{name: "cluster, TLS on and off", took: clusterModified,
			change: func(c *config, _ int) { c.TLS = !c.TLS }},
		{name: "cluster, TLS changed", took: clusterModified, first: func(c *config) { c.TLS = true },
			change: func(c *config, i int) { c.MaxConnections = 1000 + i }},
		{name: "cluster of names to resolve", took: clusterModified, first: func(c *config) { c.DNS = true },
			change: func(c *config, i int) { c.MaxConnections = 1000 + i }},
		{name: "cluster, endpoints to names and back", took: clusterModified,
			change: func(c *config, _ int) { c.DNS = !c.DNS }, first: func(c *config) { c.DNS = true }},
		// Requests to an endpoint that is removed are completed, and streams continue.
		{name: "endpoints, one of two comes and goes", took: "^cluster.tcp.update_success$",
			change: func(c *config, i int) {
				c.Servers[1] = c.Servers[0]
				if i%2 == 0 {
					c.Servers[1] = second(c)
				}
			}},
		{name: "routes", took: "^http..*.rds.http.update_success$",
			change: func(c *config, i int) { c.Generation = i }},
		// HTTP clients are asked to reconnect and do so in time; long streams and connections are
		// closed when the drain ends.
		{name: "chain of HTTP", took: listenerChanged, lost: []echo.Kind{echo.GRPCStream},
			change: func(c *config, i int) { c.ChainGeneration = i }},
		{name: "chain of TCP", took: listenerChanged, lost: []echo.Kind{echo.TCP},
			change: func(c *config, i int) { c.TCPGeneration = i }},
		{name: "listener outside its chains", took: listenerChanged, lost: []echo.Kind{echo.GRPCStream, echo.TCP},
			change: func(c *config, i int) { c.ListenerGeneration = 1<<20 + i }},
		// The way out: connections keep the filter that they began with, and no chain changes.
		{name: "TCP proxy by ECDS", took: "extension_config_discovery.*forward.*config_reload$", first: func(c *config) { c.ECDS = true },
			change: func(c *config, i int) { c.TCPGeneration = i }},
	}
}

// second is the address of the second server.
func second(c *config) string { return "127.1.2." + c.IP[len("127.1.0."):] }

// TestWhichChangesLoseRequests makes each change a few times under load.
func TestWhichChangesLoseRequests(t *testing.T) {
	longtest.Test(t)
	netns.Require(t)
	serve(t, "127.0.0.1", "local")
	for number, f := range facts() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, number+1, f.first)
			for i := range changes {
				l.load.During(fmt.Sprint("change ", i+1))
				before := l.counter(f.took)
				f.change(&l.config, i+1)
				l.write()
				l.until("Envoy takes the change in", func() error {
					if l.counter(f.took) == before {
						return fmt.Errorf("%s is still %d", f.took, before)
					}
					return nil
				})
				l.answered(time.Now())
			}
			l.drained()
			l.answered(time.Now())
			tally := l.load.Stop()
			var lost []echo.Kind
			for _, kind := range echo.Kinds() {
				if tally.Sum(func(c load.Cell) bool { return c.Lane == string(kind) }).Failed > 0 {
					lost = append(lost, kind)
				}
			}
			slices.Sort(f.lost)
			slices.Sort(lost)
			if diff := cmp.Diff(f.lost, lost); diff != "" {
				t.Errorf("kinds of lost requests (-want +got):\n%s\n%v", diff, tally.Failures[:min(len(tally.Failures), 10)])
			}
		})
	}
}

// drained waits until nothing drains any more.
func (l *lab) drained() {
	l.t.Helper()
	l.until("the end of the drain", func() error {
		if n := l.counter("^listener_manager.total_(filter_chains|listeners)_draining$"); n != 0 {
			return fmt.Errorf("%d are draining", n)
		}
		return nil
	})
}
