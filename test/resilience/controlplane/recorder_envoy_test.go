package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// dumpInterval is the interval between two config dumps of a real Envoy.
const dumpInterval = 100 * time.Millisecond

// configDump is the recorded part of Envoy's /config_dump. Envoy creates it at one moment of its
// main thread, so that routes, clusters and endpoints of a dump are consistent.
type configDump struct {
	Configs []struct {
		ActiveClusters []struct {
			Cluster struct {
				Name, Type       string
				EDSClusterConfig struct {
					ServiceName string `json:"service_name"`
				} `json:"eds_cluster_config"`
			} `json:"cluster"`
		} `json:"dynamic_active_clusters"`
		Routes []struct {
			RouteConfig struct {
				Name         string
				VirtualHosts []struct {
					Routes []struct{ Route struct{ Cluster string } }
				} `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"dynamic_route_configs"`
		Endpoints []struct {
			EndpointConfig endpointConfig `json:"endpoint_config"`
		} `json:"dynamic_endpoint_configs"`
	}
}

type endpointConfig struct {
	ClusterName string `json:"cluster_name"`
	Endpoints   []struct {
		LBEndpoints []struct {
			Endpoint struct {
				Address struct {
					SocketAddress struct{ Address string } `json:"socket_address"`
				}
			}
		} `json:"lb_endpoints"`
	}
}

// recordEnvoy runs a real agent with a real Envoy as a sidecar, behind a load balancer of the
// replicas, and records its config dumps.
func (c *chaos) recordEnvoy(t *testing.T, name string) {
	t.Helper()
	balancer := startBalancer(t, func() (list []string) {
		for _, r := range c.replicas {
			list = append(list, r.settings.XDS)
		}
		return list
	})
	envoy := startAgent(t, balancer, "sidecar", "default")
	r := newRecorder(name, c.log)
	c.log.Join(name)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(dumpInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			text, err := serving.Page(envoy.admin + "/config_dump?include_eds")
			if err != nil {
				continue // Envoy may not have started yet; the test waits for recorded states
			}
			var dump configDump
			if err := json.Unmarshal([]byte(text), &dump); err != nil {
				t.Errorf("read Envoy's configuration: %v", err)
				return
			}
			if now := time.Now(); r.view(dump, now) && c.mixedAt.CompareAndSwap(nil, &now) {
				stats, err := serving.Page(envoy.admin + "/stats?usedonly&filter=" + mixedStats)
				t.Logf("Envoy's statistics at the first mixed state, error %v:\n%s", err, stats)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// mixedStats selects the statistics that show why a cluster has no endpoints.
const mixedStats = `(update_empty|init_fetch_timeout|assignment_stale|warming_clusters|cluster_modified|cluster_added)`

// view replaces the recorder's state by a config dump, and records it. It reports whether the state
// is a mixed one that was not recorded before.
func (r *recorder) view(dump configDump, now time.Time) (mixed bool) {
	clear(r.clusters)
	clear(r.loaded)
	clear(r.routes)
	for _, config := range dump.Configs {
		for _, c := range config.ActiveClusters {
			service := ""
			if c.Cluster.Type == "EDS" {
				if service = c.Cluster.EDSClusterConfig.ServiceName; service == "" {
					service = c.Cluster.Name
				}
			}
			r.clusters[c.Cluster.Name] = service
		}
		for _, e := range config.Endpoints {
			var addresses []string
			for _, locality := range e.EndpointConfig.Endpoints {
				for _, endpoint := range locality.LBEndpoints {
					addresses = append(addresses, endpoint.Endpoint.Address.SocketAddress.Address)
				}
			}
			r.viewEndpoints(e.EndpointConfig.ClusterName, addresses, now)
		}
		for _, route := range config.Routes {
			var clusters []string
			for _, v := range route.RouteConfig.VirtualHosts {
				for _, x := range v.Routes {
					clusters = append(clusters, x.Route.Cluster)
				}
			}
			r.viewRoutes(route.RouteConfig.Name, clusters, now)
		}
	}
	return r.judge(now)
}

// addressOf returns the address of a generation of endpoints, generationOf the generation.
func addressOf(generation int) string {
	return fmt.Sprintf("10.%d.%d.%d", 20+generation>>16, generation>>8&255, generation&255)
}

func generationOf(address string) (generation int, ok bool) {
	var high, middle, low int
	if !strings.HasPrefix(address, "10.") {
		return 0, false
	}
	_, err := fmt.Sscanf(address, "10.%d.%d.%d", &high, &middle, &low)
	return (high-20)<<16 | middle<<8 | low, err == nil
}
