package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// fillWorkers is the number of concurrent registrations while the catalog is filled.
const fillWorkers = 16

// catalog is a Consul server with services whose health changes.
type catalog struct {
	url      string
	process  *exec.Cmd
	client   *api.Client
	services int
	critical [][]bool // by service and instance

	mu sync.Mutex
	// accepted are the durations of the server's answers to changes.
	accepted []time.Duration
}

// startCatalog starts a server, with its data in dir, and registers the services.
func startCatalog(ctx context.Context, o options, dir string) (*catalog, error) {
	ports, err := serving.ReservePorts(4)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "consul.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &catalog{url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), services: o.services}
	c.process = exec.Command(o.consul, "agent", "-server", "-bootstrap-expect=1", "-node=server",
		"-bind=127.0.0.1", "-client=127.0.0.1", "-data-dir="+filepath.Join(dir, "data"), "-log-level=warn",
		fmt.Sprint("-http-port=", ports[0]), fmt.Sprint("-server-port=", ports[1]), fmt.Sprint("-serf-lan-port=", ports[2]),
		fmt.Sprint("-serf-wan-port=", ports[3]), "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
		"-hcl", "performance { raft_multiplier = 1 }", "-hcl", "disable_update_check = true",
		"-hcl", fmt.Sprintf("limits { http_max_conns_per_client = %d }", o.services+1000))
	c.process.Stdout, c.process.Stderr = log, log
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("start Consul: %w", err)
	}
	if c.client, err = api.NewClient(&api.Config{Address: c.url}); err != nil {
		return c, err
	}
	if err := await(ctx, "Consul to have a leader", func() error {
		list, _, err := c.client.Health().Service("consul", "", false, nil)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("no server is registered")
		}
		return err
	}); err != nil {
		return c, err
	}
	return c, c.fill(ctx, o.instances)
}

// fill registers all instances, healthy.
func (c *catalog) fill(ctx context.Context, instances int) error {
	c.critical = make([][]bool, c.services)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillWorkers)
	for s := range c.services {
		c.critical[s] = make([]bool, instances)
		group.Go(func() error {
			for i := range instances {
				_, err := c.client.Catalog().Register(registration(s, i, false), (&api.WriteOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("register an instance: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func serviceName(service int) string { return fmt.Sprintf("service-%04d", service) }

// address returns the address of an instance, which is unique.
func address(service, instance int) string {
	n := service*256 + instance
	return fmt.Sprintf("10.%d.%d.%d", 1+n>>16, n>>8&255, 1+n&255)
}

// registration returns the request that registers an instance with the state of its check.
func registration(service, instance int, critical bool) *api.CatalogRegistration {
	name, id, status := serviceName(service), fmt.Sprintf("%s-%d", serviceName(service), instance), api.HealthPassing
	if critical {
		status = api.HealthCritical
	}
	node := fmt.Sprint("node-", instance)
	return &api.CatalogRegistration{
		Node: node, Address: fmt.Sprint("10.200.0.", 1+instance),
		Service: &api.AgentService{
			ID: id, Service: name, Address: address(service, instance), Port: 8080,
			Meta: map[string]string{"protocol": "http", "version": fmt.Sprint("v", instance%2), "team": "bench"},
		},
		Checks: api.HealthChecks{{
			Node: node, CheckID: "check-" + id, Name: "check", Status: status, ServiceID: id, ServiceName: name,
		}},
	}
}

// change is a change of one instance's health.
type change struct {
	service, instance int
	critical          bool
}

// next returns a random change and records it. Half of a service's instances stay healthy.
func (c *catalog) next(random *rand.Rand) change {
	s := random.IntN(c.services)
	i := random.IntN((len(c.critical[s]) + 1) / 2)
	c.critical[s][i] = !c.critical[s][i]
	return change{s, i, c.critical[s][i]}
}

// apply sends a change to Consul.
func (c *catalog) apply(x change) error {
	began := time.Now()
	_, err := c.client.Catalog().Register(registration(x.service, x.instance, x.critical), nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = append(c.accepted, time.Since(began))
	return err
}

// takeAccepted returns the times of answers since the last call.
func (c *catalog) takeAccepted() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.accepted
	c.accepted = nil
	return list
}

func (c *catalog) stop() {
	if c == nil || c.process == nil || c.process.Process == nil {
		return
	}
	_ = c.process.Process.Kill() // it may have ended
	_ = c.process.Wait()
}

// await polls until check returns nil, for two minutes at most.
func await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
