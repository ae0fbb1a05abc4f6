package zeroloss

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// adminTime is the timeout of a request to Envoy's admin port.
	adminTime = 5 * time.Second
	// drainTime is longer than Envoy's drain: ProxyConfig.drainDuration is 45 s.
	drainTime = time.Minute
)

// admin sends a request to the admin port of a sidecar's Envoy.
func admin(ctx context.Context, node *netns.Node, path string) (string, error) {
	c := node.Client(adminTime)
	defer c.CloseIdleConnections()
	return serving.Ask(ctx, c, "http://127.0.0.1:15000"+path)
}

// cluster is the entry of a cluster in /clusters.
type cluster struct {
	maxConnections int
	hosts          map[string]bool
}

// clusters returns the clusters that a sidecar uses. A changed one that still warms has its
// previous settings.
func clusters(ctx context.Context, node *netns.Node) (map[string]cluster, error) {
	text, err := admin(ctx, node, "/clusters")
	if err != nil {
		return nil, err
	}
	all := map[string]cluster{}
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Split(line, "::")
		if len(f) < 3 {
			continue
		}
		c, ok := all[f[0]]
		if !ok {
			c.hosts = map[string]bool{}
		}
		switch {
		case f[1] == "default_priority" && f[2] == "max_connections" && len(f) == 4:
			if c.maxConnections, err = strconv.Atoi(f[3]); err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
		case strings.Contains(f[1], ":") && len(f) == 4 && f[2] == "cx_active":
			c.hosts[f[1]] = true
		}
		all[f[0]] = c
	}
	return all, nil
}

// churn counts the resources that sidecars have updated in place, and the resources that they began
// to drain.
type churn struct {
	clusters  int // replaced
	chains    int // listeners of which some filter chains were replaced
	listeners int // listeners replaced whole
}

func (c churn) minus(o churn) churn {
	return churn{c.clusters - o.clusters, c.chains - o.chains, c.listeners - o.listeners}
}

func (c churn) plus(o churn) churn {
	return churn{c.clusters + o.clusters, c.chains + o.chains, c.listeners + o.listeners}
}

// churn reads it, summed over all sidecars.
func (w *world) churn(ctx context.Context) (churn, error) {
	var sum churn
	for _, workload := range w.Workloads {
		text, err := admin(ctx, workload.Node, "/stats?filter=^(cluster_manager.cluster_modified|listener_manager.listener_(in_place_updated|modified))$")
		if err != nil {
			return sum, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			n, err := strconv.Atoi(value)
			if err != nil {
				return sum, fmt.Errorf("reading %q: %w", line, err)
			}
			switch name {
			case "cluster_manager.cluster_modified":
				sum.clusters += n
			case "listener_manager.listener_in_place_updated":
				sum.chains += n
			default:
				sum.listeners += n
			}
		}
	}
	return sum, nil
}

// drained is content when no sidecar of a mesh drains a listener, or a part of one.
func (w *world) drained(ctx context.Context) error {
	for _, workload := range w.Workloads {
		text, err := admin(ctx, workload.Node, "/stats?filter=^listener_manager.total_(filter_chains|listeners)_draining$")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if !strings.HasSuffix(strings.TrimSpace(line), ": 0") {
				return fmt.Errorf("%s: %s", workload.Node.Name(), line)
			}
		}
	}
	return nil
}
