package consul

import (
	"errors"
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Cluster is a group of servers that elect one of them as the leader.
type Cluster struct {
	Servers []*Server

	t testing.TB
}

// StartCluster starts n servers and waits until each has a leader. They are killed when the test
// ends.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	binary, err := Binary(t.Context(), func() { t.Log("building Consul: once, several minutes") })
	if err != nil {
		t.Fatalf("build Consul: %v", err)
	}
	c := &Cluster{t: t}
	for i := range n {
		c.Servers = append(c.Servers, newServer(t, binary, fmt.Sprintf("server-%d", i+1), Options{}))
	}
	for i, s := range c.Servers {
		s.peers = append(s.peers, c.Servers[:i]...)
		s.peers = append(s.peers, c.Servers[i+1:]...)
	}
	c.Launch()
	return c
}

// Launch starts the servers that do not run, and waits until each server has a leader.
func (c *Cluster) Launch() {
	c.t.Helper()
	for _, s := range c.Servers {
		s.start()
	}
	for _, s := range c.Servers {
		s.awaitLeader()
	}
}

// Leader returns the leader, once the running servers have agreed on one of them.
func (c *Cluster) Leader() *Server {
	c.t.Helper()
	var leader *Server
	serving.Eventually(c.t, patience, "the servers agree on a leader", func() error {
		leader = nil
		for _, s := range c.Servers {
			if !s.Runs() {
				continue
			}
			address, err := s.Client().Status().Leader()
			if err != nil {
				return err
			}
			next := c.serverOf(address)
			if next == nil || !next.Runs() || leader != nil && next != leader {
				return fmt.Errorf("%s is led by %q", s.node, address)
			}
			leader = next
		}
		if leader == nil {
			return errors.New("no server runs")
		}
		return nil
	})
	return leader
}

// Follower returns a running server that is not the leader.
func (c *Cluster) Follower() *Server {
	c.t.Helper()
	leader := c.Leader()
	for _, s := range c.Servers {
		if s != leader && s.Runs() {
			return s
		}
	}
	c.t.Fatal("no server but the leader runs")
	return nil
}

// serverOf returns the server with an address for requests of other servers, or nil.
func (c *Cluster) serverOf(address string) *Server {
	for _, s := range c.Servers {
		if address == fmt.Sprintf("127.0.0.1:%d", s.ports[1]) {
			return s
		}
	}
	return nil
}
