package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/hashicorp/consul/api"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// ConsulServer is one Consul server.
type ConsulServer struct {
	Node *netns.Node

	consul  *Consul
	process *netns.Process // nil while it does not run
	client  *api.Client
}

// Start starts the server, with the data that it had, and waits until it is registered.
func (s *ConsulServer) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	return awaitConsul(ctx, s.client, s.Node.Name())
}

// Launch starts the server, with the data that it had, and does not wait.
func (s *ConsulServer) Launch() (err error) {
	args := []string{"-server", fmt.Sprintf("-bootstrap-expect=%d", len(s.consul.Servers))}
	args = append(args, s.consul.join(s.Node)...)
	s.process, err = s.consul.start(s.Node, args...)
	return err
}

// Kill ends the server by SIGKILL and waits until the agent has noticed.
func (s *ConsulServer) Kill(ctx context.Context) error {
	p := s.process
	s.process = nil
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing Consul: %w", err)
	}
	<-p.Done()
	return s.awaitFailed(ctx)
}

// Stop ends the server by SIGTERM. It does nothing if the server does not run.
func (s *ConsulServer) Stop() error {
	p := s.process
	if p == nil {
		return nil
	}
	s.process = nil
	return p.Stop(stopGrace)
}

// awaitFailed waits until the agent has noticed that the server does not answer.
func (s *ConsulServer) awaitFailed(ctx context.Context) error {
	return await(ctx, "the Consul agent to notice that the server has failed", func() error {
		members, err := s.consul.client.Agent().Members(false)
		if err != nil {
			return err
		}
		for _, m := range members {
			const failed = 4 // serf.StatusFailed
			if m.Name == s.Node.Name() && m.Status != failed {
				return fmt.Errorf("its status is %d", m.Status)
			}
		}
		return nil
	})
}

// AwaitLeader waits until the server knows a leader and is registered or, if known is false, until it
// knows none.
func (s *ConsulServer) AwaitLeader(ctx context.Context, known bool) error {
	if known {
		return awaitConsul(ctx, s.client, s.Node.Name())
	}
	return await(ctx, s.Node.Name()+" to know no leader", func() error {
		if leader, err := s.client.Status().Leader(); err == nil && leader != "" {
			return fmt.Errorf("its leader is %s", leader)
		}
		return nil
	})
}

// Tail returns the last lines of the server's log; it is empty while the server does not run.
func (s *ConsulServer) Tail(lines int) string {
	if s.process == nil {
		return ""
	}
	return s.process.Tail(lines)
}

// DeleteData deletes the data of the server, which must not run.
func (s *ConsulServer) DeleteData() error { return os.RemoveAll(dataDir(s.Node)) }

// IsLeader reports whether the server is the leader and knows it.
func (s *ConsulServer) IsLeader() bool {
	leader, err := s.client.Status().Leader()
	addr, parseErr := netip.ParseAddrPort(leader)
	return err == nil && parseErr == nil && addr.Addr() == s.Node.Addr()
}

// Partition drops all packets between the server and the other servers and, if alone is set, between
// the server and the agent.
func (s *ConsulServer) Partition(alone bool) error { return s.eachRoute(alone, netlink.RouteReplace) }

// Heal ends a Partition with the same argument.
func (s *ConsulServer) Heal(alone bool) error { return s.eachRoute(alone, netlink.RouteDel) }

// eachRoute calls change, in the namespace of each other node, for a route that drops packets to the
// server.
func (s *ConsulServer) eachRoute(alone bool, change func(*netlink.Route) error) error {
	var others []*netns.Node
	for _, o := range s.consul.Servers {
		if o != s {
			others = append(others, o.Node)
		}
	}
	if alone {
		others = append(others, s.consul.Agent)
	}
	drop := func(to netip.Addr) func() error {
		return func() error {
			bits := to.BitLen()
			return change(&netlink.Route{
				Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(bits, bits)}, Type: unix.RTN_BLACKHOLE,
			})
		}
	}
	var errs []error
	for _, o := range others {
		errs = append(errs, o.Do(drop(s.Node.Addr())), s.Node.Do(drop(o.Addr())))
	}
	return errors.Join(errs...)
}
