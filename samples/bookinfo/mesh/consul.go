package mesh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	// consulTime bounds the wait for a server that starts and for instances that become healthy.
	consulTime = 60 * time.Second
	consulPoll = 50 * time.Millisecond
	// consulGossip makes failures of a server visible to the agent within about a second.
	consulGossip = `gossip_lan { probe_interval = "300ms", probe_timeout = "150ms", suspicion_mult = 2 }`
)

// Consul is a group of Consul servers and a Consul agent, each in a node of its own. The instances of
// services are registered with the agent, which checks their health and restores their registration in
// servers that lost their data, as the agents of a real datacenter do. The control plane reads the
// server if there is one, and the agent if there are several. Not for concurrent use.
type Consul struct {
	Servers []*ConsulServer
	Agent   *netns.Node

	program       string
	agent         *netns.Process
	client        *api.Client // of the agent
	registrations []*api.AgentServiceRegistration
}

// consulServerAddr returns the address of a server by its index.
func consulServerAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 66, 0, byte(20 + i)}) }

func consulAgentAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 66, 0, 19}) }

// consulURL returns the URL that the control plane reads.
func consulURL(servers int) string {
	addr := consulAgentAddr()
	if servers == 1 {
		addr = consulServerAddr(0)
	}
	return "http://" + netip.AddrPortFrom(addr, 8500).String()
}

// startConsul adds the nodes of the servers and the agent and starts all.
func startConsul(
	ctx context.Context,
	network *netns.Network,
	program string,
	servers int,
	p *platform,
) (*Consul, error) {
	c := &Consul{program: program, registrations: p.registrations()}
	var err error
	for i := range servers {
		s := &ConsulServer{consul: c}
		if s.Node, s.client, err = addConsulNode(network, fmt.Sprintf("consul-%d", i+1), consulServerAddr(i)); err != nil {
			return nil, err
		}
		c.Servers = append(c.Servers, s)
	}
	if c.Agent, c.client, err = addConsulNode(network, "consul-agent", consulAgentAddr()); err != nil {
		return nil, err
	}
	for _, s := range c.Servers {
		if err := s.Launch(); err != nil {
			return nil, err
		}
	}
	if c.agent, err = c.start(c.Agent, c.join(c.Agent)...); err != nil {
		return nil, err
	}
	return c, awaitConsul(ctx, c.client, "")
}

func addConsulNode(network *netns.Network, name string, addr netip.Addr) (*netns.Node, *api.Client, error) {
	node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{addr}})
	if err != nil {
		return nil, nil, err
	}
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:8500", HttpClient: node.Client(callTimeout)})
	return node, client, err
}

// start starts Consul in a node.
func (c *Consul) start(node *netns.Node, args ...string) (*netns.Process, error) {
	return node.Start(netns.Command{
		Name: "consul", Path: c.program,
		Args: append([]string{
			"agent", "-node=" + node.Name(), "-bind=" + node.Addr().String(), "-client=0.0.0.0", "-data-dir=" + dataDir(node),
			"-retry-interval=1s", "-log-level=info", "-hcl", "disable_update_check = true", "-hcl", "leave_on_terminate = false",
			"-hcl", "performance { raft_multiplier = 1 }", "-hcl", consulGossip,
			"-hcl", `autopilot { server_stabilization_time = "1s" }`,
		}, args...),
		Env: []string{"GOMEMLIMIT=256MiB"},
	})
}

// join returns the arguments by which a node joins all others, the agent included: servers that lost
// their data find it in this way.
func (c *Consul) join(node *netns.Node) []string {
	var args []string
	for _, s := range c.Servers {
		if s.Node != node {
			args = append(args, "-retry-join="+s.Node.Addr().String())
		}
	}
	if node != c.Agent {
		args = append(args, "-retry-join="+consulAgentAddr().String())
	}
	return args
}

func dataDir(node *netns.Node) string { return filepath.Join(node.Dir(), "data") }

// awaitConsul waits until the server with this name, or any if it is empty, is registered.
func awaitConsul(ctx context.Context, client *api.Client, server string) error {
	return await(ctx, "Consul to have a leader", func() error {
		list, _, err := client.Health().Service("consul", "", true, nil)
		for _, e := range list {
			if e.Node != nil && (server == "" || e.Node.Node == server) {
				return nil
			}
		}
		return errors.Join(errors.New("the server is not registered"), err)
	})
}

// Register registers the instances of a pod. A pod without services is an error.
func (c *Consul) Register(pod string) error {
	found := false
	for _, r := range c.registrations {
		if r.ID != pod {
			continue
		}
		found = true
		if err := c.client.Agent().ServiceRegister(r); err != nil {
			return fmt.Errorf("registering %s in Consul: %w", pod, err)
		}
	}
	if !found {
		return fmt.Errorf("registering %s in Consul: no service selects the pod", pod)
	}
	return nil
}

// Deregister deregisters the instance of a pod.
func (c *Consul) Deregister(pod string) error {
	if err := c.client.Agent().ServiceDeregister(pod); err != nil {
		return fmt.Errorf("deregistering %s in Consul: %w", pod, err)
	}
	return nil
}

// registerAll registers all instances. Their health checks fail until their agents run.
func (c *Consul) registerAll() error {
	for _, r := range c.registrations {
		if err := c.Register(r.ID); err != nil {
			return err
		}
	}
	return nil
}

// AwaitHealthy waits until the servers list all instances as healthy.
func (c *Consul) AwaitHealthy(ctx context.Context) error {
	return await(ctx, "all instances to be healthy in Consul", func() error {
		for _, r := range c.registrations {
			list, _, err := c.client.Health().Service(r.Name, "", true, &api.QueryOptions{RequireConsistent: true})
			if err != nil {
				return err
			}
			if !lists(list, r.ID) {
				return fmt.Errorf("%s is not", r.ID)
			}
		}
		return nil
	})
}

// AwaitVoters waits until all servers vote. Until then, the failure of another server can end the quorum.
func (c *Consul) AwaitVoters(ctx context.Context) error {
	return await(ctx, "all Consul servers to vote", func() error {
		configuration, err := c.client.Operator().RaftGetConfiguration(nil)
		if err != nil {
			return err
		}
		voters := 0
		for _, s := range configuration.Servers {
			if s.Voter && s.Node != "(unknown)" {
				voters++
			}
		}
		if voters != len(c.Servers) || voters != len(configuration.Servers) {
			return fmt.Errorf("%d of %d", voters, len(configuration.Servers))
		}
		return nil
	})
}

func lists(list []*api.ServiceEntry, id string) bool {
	for _, e := range list {
		if e.Service != nil && e.Service.ID == id {
			return true
		}
	}
	return false
}

// Instances returns the number of instances that are registered by default.
func (c *Consul) Instances() int { return len(c.registrations) }

// stop ends the agent and the servers.
func (c *Consul) stop() error {
	var errs []error
	for _, s := range c.Servers {
		errs = append(errs, s.Stop())
	}
	if c.agent != nil {
		errs = append(errs, c.agent.Stop(stopGrace))
	}
	return errors.Join(errs...)
}

// await polls until check returns nil. After consulTime it returns the last error.
func await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, consulTime)
	defer cancel()
	ticker := time.NewTicker(consulPoll)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-ticker.C:
		}
	}
}
