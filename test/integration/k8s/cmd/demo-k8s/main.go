// demo-k8s demonstrates a mesh on a cluster with measured calls: it brings a real Kubernetes
// cluster up on this machine, installs meshpilot by its charts, plays the scenes of package story,
// and ends with status 0 if all was as expected.
//
//	make demo-k8s            play, then take the cluster down
//	make demo-k8s KEEP=1     play, then stay until Ctrl-C, for a browser and kubectl
//
// It needs root: pods are processes in network namespaces.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
	"github.com/meshpilot/meshpilot/test/integration/k8s/story"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo-k8s:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:           "demo-k8s",
		Short:         "Show a mesh at work on a Kubernetes cluster of this machine",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "stay until Ctrl-C after the story")
	return cmd
}

func runDemo(ctx context.Context, keep bool) error {
	watching := audience{screen.Terminal(os.Stdout, false)}
	o := cluster.Options{Tier: cluster.Node, GatewayAPI: cluster.Standard, Output: watching.Say}
	watching.Line(screen.Bold, "A Kubernetes cluster comes up: etcd, kube-apiserver, kube-controller-manager, a node")
	var err error
	if o.Images, err = mesh.BuildImages(ctx); err != nil {
		return err
	}
	c, err := cluster.Up(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "demo-k8s:", err)
		}
	}()
	stage, err := story.NewStage(c, watching)
	if err != nil {
		return err
	}
	defer stage.Close()
	played := stage.Play(ctx)
	if keep && ctx.Err() == nil {
		if err := keepCluster(ctx, watching, c, stage.Gateway()); err != nil {
			return err
		}
	}
	return played
}

// keepCluster leaves the cluster to people until ctx ends.
func keepCluster(ctx context.Context, watching audience, c *cluster.Cluster, gateway string) error {
	watching.Line(screen.Bold, "\nThe cluster stays until Ctrl-C")
	watching.Say("export KUBECONFIG=%s", c.Kubeconfig())
	if gateway != "" {
		door, err := c.Expose(gateway + ":80")
		if err != nil {
			return err
		}
		watching.Say("http://%s/productpage", door)
	}
	<-ctx.Done()
	return nil
}
