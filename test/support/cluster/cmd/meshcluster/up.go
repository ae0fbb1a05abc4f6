package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
)

// settings are the flags of up.
type settings struct {
	tier, gatewayAPI string
	mesh, dualStack  bool
	index            int
	set              []string
}

func (s *settings) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.tier, "tier", "node", "api, controllers or node: how much of a cluster; node needs root")
	f.StringVar(&s.gatewayAPI, "gateway-api", "", "kinds of Gateway API: standard or experimental (default: none)")
	f.BoolVar(&s.mesh, "mesh", false, "install meshpilot and an ingress gateway by their charts")
	f.StringArrayVar(&s.set, "set", nil, "a value of the control plane's chart, as NAME=VALUE")
	f.BoolVar(&s.dualStack, "dual-stack", false, "give the cluster IPv6 addresses, too")
	f.IntVar(&s.index, "index", 0, "which addresses the cluster has; see cluster.Options")
}

func (s *settings) clusterOptions() (cluster.Options, error) {
	tier := slices.Index([]string{"api", "controllers", "node"}, s.tier)
	if tier < 0 {
		return cluster.Options{}, fmt.Errorf("--tier %s is none of api, controllers, node", s.tier)
	}
	if s.mesh && cluster.Tier(tier) != cluster.Node {
		return cluster.Options{}, errors.New("--mesh needs --tier node")
	}
	return cluster.Options{
		Tier: cluster.Tier(tier), GatewayAPI: cluster.GatewayAPI(s.gatewayAPI),
		IstioKinds: cluster.Tier(tier) != cluster.Node, // There a chart installs them.
		DualStack:  s.dualStack, Index: s.index,
		Output: printProgress,
	}, nil
}

func upCommand(name *string) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a cluster up; the first time its programs are built, which takes minutes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.clusterOptions(); err != nil {
				return err
			}
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			if err := startKeeper(cmd.Context(), p, flagsOf(cmd)); err != nil || !s.mesh {
				return err
			}
			return installMesh(cmd.Context(), p, s.set)
		},
	}
	s.addFlags(cmd)
	return cmd
}

// flagsOf returns the flags of a command that were set, for another command that has the same.
func flagsOf(cmd *cobra.Command) []string {
	var args []string
	inherited := cmd.InheritedFlags() // LocalFlags would return a copy that does not know which flags were set.
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if inherited.Lookup(f.Name) != nil {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	return args
}

// startKeeper starts a process that runs the cluster, and waits until the cluster is ready, or its
// start has failed.
func startKeeper(ctx context.Context, p place, flags []string) error {
	if p.isUp() {
		return fmt.Errorf("the cluster %s is up: meshcluster down --name %s", p.name, p.name)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.filePath(logName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	keeper := exec.Command(self, append([]string{"--name", p.name, serveName}, flags...)...) // it outlives this program
	keeper.Stdout, keeper.Stderr = log, log
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := keeper.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	return followKeeper(ctx, p, keeper.Process, ended)
}

// followKeeper prints the keeper's output until the cluster is up.
func followKeeper(ctx context.Context, p place, keeper *os.Process, ended <-chan error) error {
	said, err := os.Open(p.filePath(logName))
	if err != nil {
		return err
	}
	defer said.Close()
	for {
		if _, err := io.Copy(os.Stdout, said); err != nil {
			return err
		}
		if s, err := p.readState(); err == nil && s.Error != "" {
			return errors.New(s.Error)
		} else if err == nil {
			fmt.Printf("the cluster %s is up: meshcluster kubectl …, or KUBECONFIG=%s\n", p.name, s.Kubeconfig)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), keeper.Signal(syscall.SIGTERM))
		case err := <-ended:
			_, copyErr := io.Copy(os.Stdout, said) // its last output
			return errors.Join(fmt.Errorf("the cluster did not come up: %w", err), copyErr)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

const serveName = "serve"

// serveCommand returns the command that runs a cluster until it receives a signal.
func serveCommand(name *string) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:    serveName,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			lock, err := p.lockPlace()
			if err != nil {
				return err
			}
			defer lock.Close()
			if err := keepCluster(cmd.Context(), p, s); err != nil {
				return errors.Join(err, p.writeState(state{Error: err.Error()}))
			}
			return os.RemoveAll(p.dir)
		},
	}
	s.addFlags(cmd)
	return cmd
}

func keepCluster(ctx context.Context, p place, s *settings) (err error) {
	o, err := s.clusterOptions()
	if err != nil {
		return err
	}
	o.Dir = p.filePath("cluster")
	if o.Tier == cluster.Node {
		if o.Images, err = mesh.BuildImages(ctx); err != nil {
			return err
		}
	}
	c, err := cluster.Up(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	if err := p.writeState(state{PID: os.Getpid(), NodePID: c.NodePID(), Kubeconfig: c.Kubeconfig()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
