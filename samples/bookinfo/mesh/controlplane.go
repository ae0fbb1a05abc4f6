package mesh

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	controlPlaneReady = 30 * time.Second
	// controlPlaneGrace is more than its own default for shutting down, 10 s.
	controlPlaneGrace = 15 * time.Second
)

// ControlPlane is pilot-discovery in a node of its own. Not for concurrent use.
type ControlPlane struct {
	Node *netns.Node

	command netns.Command
	process *netns.Process
}

// addControlPlane adds a replica. All of them read the same rules, and sign with one authority.
func addControlPlane(network *netns.Network, name string, addr netip.Addr, binaries, configDir, caDir, domain string) (*ControlPlane, error) {
	node, err := network.AddNode(netns.NodeOptions{Name: name, Addrs: []netip.Addr{addr}})
	if err != nil {
		return nil, err
	}
	return &ControlPlane{Node: node, command: netns.Command{
		Name: "pilot-discovery",
		Path: filepath.Join(binaries, "pilot-discovery"),
		Args: []string{
			"discovery", "--configDir", configDir, "--registries=", "--domain", domain,
			"--grpcAddr", ":15010", "--httpAddr", ":8080", "--monitoringAddr", ":15014",
			"--httpsAddr", "", "--secureGRPCAddr", ":15012", "--caDir", caDir,
		},
		Env: []string{"POD_NAME=" + name, "POD_NAMESPACE=istio-system"},
	}}, nil
}

// Start starts the control plane and waits until it is ready: its sources have synced.
func (c *ControlPlane) Start(ctx context.Context) error {
	p, err := c.Node.Start(c.command)
	if err != nil {
		return err
	}
	c.process = p
	ctx, cancel := context.WithTimeout(ctx, controlPlaneReady)
	defer cancel()
	return p.AwaitOK(ctx, "http://127.0.0.1:8080/ready")
}

// Stop ends the control plane by SIGTERM and waits for it; the error tells of a status other than 0.
func (c *ControlPlane) Stop() error {
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	if err := p.Stop(controlPlaneGrace); err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}

// Kill ends the control plane by SIGKILL, as a crash would.
func (c *ControlPlane) Kill() error {
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the control plane: %w", err)
	}
	<-p.Done()
	return nil
}

// Process is the running control plane, nil between Stop and Start.
func (c *ControlPlane) Process() *netns.Process { return c.process }
