package component

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	controlPlaneReady = 30 * time.Second
	// controlPlaneGrace is more than the control plane's own default for shutting down, 10 s.
	controlPlaneGrace = 15 * time.Second
)

// ControlPlaneHost is the name of the control plane in its certificate, also without Kubernetes.
const ControlPlaneHost = "istiod.istio-system.svc"

// ControlPlaneOptions describe a replica of the control plane.
type ControlPlaneOptions struct {
	// Name is the name of the replica and its node.
	Name string
	Addr netip.Addr
	// Program is the path of pilot-discovery.
	Program string
	// ConfigDir is the directory of objects that it reads, CADir that of its authority. Replicas
	// share both.
	ConfigDir, CADir string
	// Domain is the suffix of the names of services.
	Domain string
	// Args are more flags, Env more variables, "NAME=value".
	Args, Env []string
}

// ControlPlane is pilot-discovery in a node of its own. It must not be used concurrently.
type ControlPlane struct {
	Node *netns.Node

	command netns.Command
	process *netns.Process
}

// AddControlPlane adds the node of a replica to a network. It does not start the replica. It
// returns an error if the node cannot be added.
func AddControlPlane(network *netns.Network, o ControlPlaneOptions) (*ControlPlane, error) {
	node, err := network.AddNode(netns.NodeOptions{Name: o.Name, Addrs: []netip.Addr{o.Addr}})
	if err != nil {
		return nil, err
	}
	return &ControlPlane{Node: node, command: netns.Command{
		Name: "pilot-discovery",
		Path: o.Program,
		Args: append([]string{
			"discovery", "--configDir", o.ConfigDir, "--registries=", "--domain", o.Domain,
			"--grpcAddr", ":15010", "--httpAddr", ":8080", "--monitoringAddr", ":15014",
			"--httpsAddr", "", "--secureGRPCAddr", ":15012", "--caDir", o.CADir,
		}, o.Args...),
		Env: append([]string{"POD_NAME=" + o.Name, "POD_NAMESPACE=istio-system"}, o.Env...),
	}}, nil
}

// Start starts the control plane and waits until it is ready: its sources have synced. It returns
// an error if the process ends first, or is not ready within controlPlaneReady or before ctx ends.
// The process may then still run; unless it could not be started, Stop and Kill end it.
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

// Stop ends the control plane by SIGTERM, and by SIGKILL after controlPlaneGrace, and waits for its
// end. It returns an error if the process had to be killed or its exit status is not 0. It does
// nothing if the control plane does not run.
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

// Kill ends the control plane by SIGKILL, as a crash would, and waits for its end. It returns an
// error if the signal cannot be sent. It does nothing if the control plane does not run.
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

// Process returns the running control plane, or nil before Start and after Stop or Kill.
func (c *ControlPlane) Process() *netns.Process { return c.process }
