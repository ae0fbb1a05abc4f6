package consul

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/platform"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestTenThousandInstances checks one service with ten thousand instances. A change of one of them
// costs one query, and all are retained while the server is down.
func TestTenThousandInstances(t *testing.T) {
	consul.Require(t)
	s := consul.Start(t, consul.Options{})
	s.RegisterMany("web", platform.Large)
	f := follow(t, s, nil)
	await := func(endpoints, unhealthy int) {
		t.Helper()
		began := time.Now()
		serving.Eventually(t, patience, fmt.Sprintf("%d endpoints", endpoints), func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			text := f.describe()
			n, bad := strings.Count(text, "198.18."), strings.Count(text, "=UNHEALTHY")
			if n != endpoints || bad != unhealthy || strings.Contains(text, "not synced") {
				return fmt.Errorf("%d endpoints, %d unhealthy; problems %v", n, bad, f.state.Problems)
			}
			return nil
		})
		t.Logf("%d endpoints after %v", endpoints, time.Since(began).Round(time.Millisecond))
	}
	await(platform.Large, 0)
	before := f.queries()
	s.Register("web", "one-more", "198.18.255.1", 8080, "critical", nil)
	await(platform.Large+1, 1)
	if n := f.queries() - before; n > 4 { // for the service and the list, each with the one that waits next
		t.Errorf("%v queries for one change", n)
	}
	s.Kill()
	f.awaitProblem("Consul cannot be read")
	s.Launch()
	f.awaitProblem("")
	await(platform.Large+1, 1)
	s.Deregister("one-more")
	await(platform.Large, 0)
}
