package zeroloss

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
)

func all(checks ...func(context.Context, *stage, time.Time) error) func(context.Context, *stage, time.Time) error {
	return func(ctx context.Context, s *stage, since time.Time) error {
		for _, c := range checks {
			if err := c(ctx, s, since); err != nil {
				return err
			}
		}
		return nil
	}
}

// answers waits until on every lane of a host that opens something for each request, one sent after since was answered as
// wanted.
func answers(host string, want func(load.Seen) error) func(context.Context, *stage, time.Time) error {
	return answersOn(host, false, want)
}

// answersOn is answers, if so wanted also for lanes whose requests go where earlier ones went.
func answersOn(host string, long bool, want func(load.Seen) error) func(context.Context, *stage, time.Time) error {
	return func(ctx context.Context, s *stage, since time.Time) error {
		lanes := s.lanes()
		return s.load.Await(ctx, func(newest map[string]load.Seen) error {
			for _, lane := range lanes {
				if lane.Kind.Long() && !long || !strings.HasPrefix(lane.Name, host+" ") {
					continue
				}
				seen := newest[lane.Name]
				if seen.Sent.Before(since) {
					return fmt.Errorf("%s: no answer since %s", lane.Name, since.Format(time.TimeOnly))
				}
				if err := want(seen); err != nil {
					return fmt.Errorf("%s: %w", lane.Name, err)
				}
			}
			return nil
		})
	}
}

func versionIs(v string) func(context.Context, *stage, time.Time) error {
	return answers("echo", func(r load.Seen) error {
		if r.Version != v {
			return fmt.Errorf("answered by %s", r.Version)
		}
		return nil
	})
}

// generationOf waits for the header that the last edit has set. What speaks no HTTP has none.
func generationOf(host string) func(context.Context, *stage, time.Time) error {
	return func(ctx context.Context, s *stage, since time.Time) error {
		return answers(host, func(r load.Seen) error {
			if g := generation(r.Reply); g != s.state.Generation && r.HTTP {
				return fmt.Errorf("generation %d, want %d", g, s.state.Generation)
			}
			return nil
		})(ctx, s, since)
	}
}

func generationSeen(ctx context.Context, s *stage, since time.Time) error {
	return generationOf("echo")(ctx, s, since)
}

func tlsSeen(ctx context.Context, s *stage, since time.Time) error {
	return answers("dual", func(r load.Seen) error {
		if r.TLS != s.state.TLS {
			return fmt.Errorf("TLS is %t", r.TLS)
		}
		return nil
	})(ctx, s, since)
}

// inClusters waits until the client's Envoy uses clusters as wanted.
func inClusters(want func(s *stage, all map[string]cluster) error) func(context.Context, *stage, time.Time) error {
	return func(ctx context.Context, s *stage, _ time.Time) error {
		return eventually(ctx, func() error {
			list, err := clusters(ctx, s.Workload("client").Node)
			if err != nil {
				return err
			}
			return want(s, list)
		})
	}
}

func subsetCluster(port int, subset string) string {
	return fmt.Sprintf("outbound|%d|%s|echo.mesh", port, subset)
}

// clusterIs waits until the clusters of subset v2 exist, or until they do not.
func clusterIs(there bool) func(context.Context, *stage, time.Time) error {
	return inClusters(func(_ *stage, list map[string]cluster) error {
		for _, port := range []int{8080, 8082, 7070, 9000} {
			c, ok := list[subsetCluster(port, "v2")]
			if *onDemand { // a fetched cluster that is deleted becomes empty
				ok = len(c.hosts) > 0
			}
			if ok != there {
				return fmt.Errorf("cluster %s: %t", subsetCluster(port, "v2"), ok)
			}
		}
		return nil
	})
}

func poolSeen(ctx context.Context, s *stage, since time.Time) error {
	return inClusters(func(s *stage, list map[string]cluster) error {
		for _, name := range []string{subsetCluster(8080, "v1"), subsetCluster(9000, "v1"), subsetCluster(7070, "")} {
			if c, ok := list[name]; *onDemand && (!ok || len(c.hosts) == 0) {
				continue // was not called
			}
			if got := list[name].maxConnections; got != s.state.MaxConnections {
				return fmt.Errorf("%s takes %d connections, want %d", name, got, s.state.MaxConnections)
			}
		}
		return nil
	})(ctx, s, since)
}

func hostsSeen(n int) func(context.Context, *stage, time.Time) error {
	return inClusters(func(_ *stage, list map[string]cluster) error {
		for _, port := range []int{8080, 8082, 7070, 9000} {
			if got := len(list[subsetCluster(port, "v1")].hosts); got != n {
				return fmt.Errorf("%s has %d endpoints, want %d", subsetCluster(port, "v1"), got, n)
			}
		}
		return nil
	})
}

// meshRoutesSeen waits until the client has listeners for the addresses of kube, or none: routes of the mesh
// apply to the addresses of their Service.
func meshRoutesSeen(ctx context.Context, s *stage, _ time.Time) error {
	return eventually(ctx, func() error {
		text, err := admin(ctx, s.Workload("client").Node, "/listeners")
		if err != nil {
			return err
		}
		for _, name := range []string{"10.96.1.3_8080", "10.96.1.3_8082"} {
			if strings.Contains(text, name+"::") != s.state.MeshRoutes {
				return fmt.Errorf("listener %s, want %t:\n%s", name, s.state.MeshRoutes, text)
			}
		}
		return nil
	})
}

// policySeen waits until exactly the path that the policy denies is denied on a connection that was
// opened before.
func policySeen(ctx context.Context, s *stage, _ time.Time) error {
	for _, version := range []string{"v1", "v2"} {
		if err := s.policyAt(ctx, "echo-"+version); err != nil {
			return err
		}
	}
	for _, path := range []string{"/first", "/second"} {
		if err := s.denied(ctx, path, path == s.state.Denied); err != nil {
			return err
		}
	}
	return nil
}

// policyAt waits until a sidecar enforces the policy.
func (s *stage) policyAt(ctx context.Context, workload string) error {
	return eventually(ctx, func() error {
		text, err := admin(ctx, s.Workload(workload).Node, "/config_dump?resource=ecds_filters")
		if err != nil {
			return err
		}
		for _, path := range []string{"/first", "/second"} {
			if strings.Contains(text, path) != (path == s.state.Denied) {
				return fmt.Errorf("%s denies another path: %s", workload, text)
			}
		}
		return nil
	})
}

// denied requests a path on a connection that was opened before all policies.
func (s *stage) denied(ctx context.Context, path string, want bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://echo.mesh:8080"+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.kept.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if got := resp.StatusCode == http.StatusForbidden; got != want {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

// peersSeen waits until the servers accept exactly the new modes, which happens after their callers
// were updated.
func peersSeen(ctx context.Context, s *stage, _ time.Time) error {
	const mutual, only = `"0.0.0.0_8080_mtls"`, `"0.0.0.0_8080_mtls_any"` // chains
	for _, version := range []string{"v1", "v2"} {
		if err := eventually(ctx, func() error {
			text, err := admin(ctx, s.Workload("echo-"+version).Node, "/config_dump?resource=dynamic_listeners&name_regex=virtualInbound")
			if err != nil {
				return err
			}
			if strings.Contains(text, mutual) != (s.state.Peers != "DISABLE") || strings.Contains(text, only) != (s.state.Peers == "STRICT") {
				return fmt.Errorf("echo-%s does not enforce %q: mutual TLS %t, alone %t", version, s.state.Peers, strings.Contains(text, mutual), strings.Contains(text, only))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// nackSeen waits until the client's Envoy has refused something more.
func nackSeen(ctx context.Context, s *stage, _ time.Time) error {
	return eventually(ctx, func() error {
		n, err := s.refusals()
		if err == nil && n == s.refused {
			err = fmt.Errorf("%d updates were refused, as before", n)
		}
		return err
	})
}

// refusals counts the rejections in the log of the client's Envoy. Istio's bootstrap does not
// retain its counters of rejected routes.
func (s *stage) refusals() (int, error) {
	log, err := os.ReadFile(s.Workload("client").Agent.LogPath())
	return bytes.Count(log, []byte(refusal)), err
}
