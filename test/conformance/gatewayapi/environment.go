package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
)

// Options configure an Environment.
type Options struct {
	// Channel is the channel of the installed kinds (default standard).
	Channel cluster.GatewayAPI
	// Inference runs the suite of the Gateway API Inference Extension instead, with its reference endpoint picker.
	Inference bool
	// Set are additional values of the control plane's chart, as NAME=VALUE.
	Set []string
	// Dir keeps the cluster's state and logs. If empty, a temporary directory is used and removed.
	Dir string
	// Output is called with the progress, for people. If nil, nothing is reported.
	Output func(format string, args ...any)
}

// Environment is a cluster with meshpilot and what the suite needs.
type Environment struct {
	Cluster *cluster.Cluster
	options Options
	dir     string // of the suite's own files
}

// Start brings a cluster up and installs meshpilot. It needs root. If it fails, nothing is left.
func Start(ctx context.Context, o Options) (*Environment, error) {
	if o.Channel == cluster.Without {
		o.Channel = cluster.Standard
	}
	if o.Output == nil {
		o.Output = func(string, ...any) {}
	}
	e := &Environment{options: o}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context) (err error) {
	if e.dir, err = os.MkdirTemp("", "meshpilot-conformance-"); err != nil {
		return err
	}
	images, err := mesh.BuildImages(ctx)
	if err != nil {
		return err
	}
	more, err := suiteImages(ctx, e.dir, e.options.Output)
	if err != nil {
		return err
	}
	// Listeners name Secrets in any namespace.
	set := slices.Concat([]string{"autoscaleEnabled=false", "gatewaySecrets.scope=cluster"}, e.options.Set)
	var crds []string
	if e.options.Inference {
		var picker image.Map
		if crds, picker, err = inferenceKinds(ctx, e.options.Output); err != nil {
			return err
		}
		more = append(more, picker...)
		set = append(set, "env.ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true")
	}
	e.Cluster, err = cluster.Up(ctx, cluster.Options{
		Tier: cluster.Node, GatewayAPI: e.options.Channel, CRDs: crds, // A chart installs Istio's.
		Images: slices.Concat(images, more), Dir: e.options.Dir, Output: e.options.Output,
	})
	if err != nil {
		return err
	}
	for _, chart := range mesh.Charts(set...)[:2] { // Gateways deploy themselves.
		e.options.Output("installing %s", chart.Release)
		if err := mesh.InstallCharts(ctx, e.Cluster.Programs(), e.Cluster.Kubeconfig(), chart); err != nil {
			return err
		}
	}
	if e.options.Inference {
		return e.prepareInference(ctx)
	}
	return nil
}

// Stop takes the cluster down.
func (e *Environment) Stop() error {
	var errs []error
	if e.Cluster != nil {
		errs = append(errs, e.Cluster.Down())
	}
	if e.dir != "" {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// nodeKubeconfig returns the path of a kubeconfig for programs in the node's network.
func (e *Environment) nodeKubeconfig() (string, error) {
	path := filepath.Join(e.dir, "node.kubeconfig")
	if err := cluster.WriteKubeconfig(path, e.Cluster.NodeConfig()); err != nil {
		return "", fmt.Errorf("write a kubeconfig for the node: %w", err)
	}
	return path, nil
}
