package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// pollPause is the time between two reads of a cluster of Envoy, and the error of its latencies.
const pollPause = 5 * time.Millisecond

// proxy is an Envoy with the clusters of all services. It measures when changes of endpoints are in use there.
type proxy struct {
	process *exec.Cmd
	admin   string
	client  http.Client

	mu        sync.Mutex
	pending   map[string]bool // addresses of which a change has not arrived
	latencies []time.Duration
	failed    error // the first
}

// bootstrapText is the bootstrap of an Envoy that reads clusters and endpoints from the control plane, with the
// ports of the control plane and the admin interface. Without ISTIO_VERSION, the control plane expects no agent
// that serves certificates.
const bootstrapText = `{
  "node": {"id": "sidecar~10.250.0.2~envoy.default~default.svc.cluster.local", "cluster": "bench",
    "metadata": {"NAMESPACE": "default"}},
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %[2]s}}},
  "dynamic_resources": {
    "ads_config": {"api_type": "DELTA_GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
    "cds_config": {"ads": {}, "resource_api_version": "V3"}},
  "static_resources": {"clusters": [{
    "name": "xds", "type": "STATIC", "connect_timeout": "5s",
    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
      "explicit_http_config": {"http2_protocol_options": {}}}},
    "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [{"endpoint": {
      "address": {"socket_address": {"address": "127.0.0.1", "port_value": %[1]s}}}}]}]}}]}
}`

// startProxy starts an Envoy and waits until it has the clusters and endpoints of all services.
func startProxy(ctx context.Context, o options, xds, dir string) (*proxy, error) {
	ports, err := serving.ReservePorts(1)
	if err != nil {
		return nil, err
	}
	admin := fmt.Sprint(ports[0])
	bootstrap := filepath.Join(dir, "envoy.json")
	text := fmt.Sprintf(bootstrapText, xds[strings.LastIndex(xds, ":")+1:], admin)
	if err := os.WriteFile(bootstrap, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "envoy.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &proxy{admin: "http://127.0.0.1:" + admin, pending: map[string]bool{}}
	p.client = http.Client{
		Transport: &http.Transport{MaxConnsPerHost: 16, MaxIdleConnsPerHost: 16},
		Timeout:   10 * time.Second,
	}
	arguments := []string{"-c", bootstrap, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"}
	p.process = exec.CommandContext(ctx, o.envoy, arguments...)
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.envoy, err)
	}
	err = await(ctx, "Envoy to have all endpoints", func() error {
		for s := range o.services {
			list, err := p.endpoints(ctx, s)
			if err != nil {
				return err
			}
			if len(list) != o.instances {
				return fmt.Errorf("%s has %d endpoints", serviceName(s), len(list))
			}
		}
		return nil
	})
	if err != nil {
		end, _ := os.ReadFile(log.Name())
		err = fmt.Errorf("%w; its log: %s", err, end[max(0, len(end)-2000):])
	}
	return p, err
}

// endpoints returns the endpoints of a service's cluster by address: whether Envoy sends requests to them.
func (p *proxy) endpoints(ctx context.Context, service int) (map[string]bool, error) {
	name := "^" + regexp.QuoteMeta(fmt.Sprintf("outbound|8080||%s.service.consul", serviceName(service))) + "$"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		p.admin+"/config_dump?include_eds&resource=dynamic_endpoint_configs&name_regex="+url.QueryEscape(name), nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var dump struct {
		Configs []struct {
			Endpoints struct {
				Localities []struct {
					Endpoints []struct {
						Health   string `json:"health_status"`
						Endpoint struct {
							Address struct {
								Socket struct{ Address string } `json:"socket_address"`
							}
						}
					} `json:"lb_endpoints"`
				} `json:"endpoints"`
			} `json:"endpoint_config"`
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&dump); err != nil {
		return nil, fmt.Errorf("read the answer %s of Envoy: %w", response.Status, err)
	}
	list := map[string]bool{}
	for _, c := range dump.Configs {
		for _, l := range c.Endpoints.Localities {
			for _, e := range l.Endpoints {
				list[e.Endpoint.Address.Socket.Address] = e.Health == "HEALTHY"
			}
		}
	}
	return list, nil
}

// isPending reports whether Envoy does not have the last change of an instance.
func (p *proxy) isPending(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[address]
}

// follow measures the time from now until Envoy uses an endpoint, or no longer uses it. No earlier change of
// the instance may be pending.
func (p *proxy) follow(ctx context.Context, x change) {
	a, began := address(x.service, x.instance), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[a] = true
	go func() {
		for {
			list, err := p.endpoints(ctx, x.service)
			if err != nil || list[a] == !x.critical {
				p.record(a, time.Since(began), err)
				return
			}
			pause(ctx, pollPause)
		}
	}()
}

// record ends the measurement of a change.
func (p *proxy) record(address string, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, address)
	if err == nil {
		p.latencies = append(p.latencies, took)
	} else if p.failed == nil {
		p.failed = fmt.Errorf("read Envoy's endpoints: %w", err)
	}
}

// awaitChanges waits until Envoy has all changes, and returns their latencies. It returns an error if Envoy
// could not be asked.
func (p *proxy) awaitChanges(ctx context.Context) (list []time.Duration, err error) {
	err = await(ctx, "the last changes in Envoy", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.pending) > 0 {
			return fmt.Errorf("%d have not arrived", len(p.pending))
		}
		list = p.latencies
		return nil
	})
	if err == nil {
		err = p.failed
	}
	return list, err
}

func (p *proxy) stop() {
	if p == nil || p.process == nil || p.process.Process == nil {
		return
	}
	_ = p.process.Process.Kill() // it may have ended
	_ = p.process.Wait()
	p.client.CloseIdleConnections()
}
