package mesh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
)

const (
	// appImage is the image name that stands for Bookinfo's program; any other runs nothing.
	appImage = "bookinfo"
	// appTime bounds the wait for the ports of an app that starts.
	appTime = 20 * time.Second
	// stopGrace is what a process has between SIGTERM and SIGKILL. An agent drains Envoy meanwhile, for 5 s by default.
	stopGrace = 8 * time.Second
)

// Workload is a pod that runs: a node with an app, if the pod has one, and a sidecar.
type Workload struct {
	Pod   *corev1.Pod
	Node  *netns.Node
	App   *netns.Process // nil if the pod runs no program
	Agent *netns.Process // nil in a mesh without sidecars

	// sidecars and binaries are what its processes were started from.
	sidecars *component.Sidecars
	binaries string
	env      []string // more variables for the app
}

// addWorkload makes the pod's node and starts nothing yet.
func addWorkload(network *netns.Network, pod *corev1.Pod, hosts map[string]netip.Addr) (*Workload, error) {
	addr, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	node, err := network.AddNode(netns.NodeOptions{Name: pod.Name, Addrs: []netip.Addr{addr}, Hosts: hosts})
	if err != nil {
		return nil, err
	}
	return &Workload{Pod: pod, Node: node}, nil
}

// startApp starts the pod's program and waits for its ports.
func (w *Workload) startApp(ctx context.Context, binaries string) error {
	w.binaries = binaries
	ctx, cancel := context.WithTimeout(ctx, appTime)
	defer cancel()
	for _, c := range w.Pod.Spec.Containers {
		if c.Image != appImage {
			continue
		}
		env := append([]string{"HOSTNAME=" + w.Pod.Name, "UNHEALTHY_FILE=" + w.unhealthyFile()}, w.env...)
		for _, e := range c.Env {
			env = append(env, e.Name+"="+e.Value)
		}
		var err error
		w.App, err = w.Node.Start(netns.Command{
			Name: "app", Path: filepath.Join(binaries, appImage), Args: c.Args, Env: env,
		})
		if err != nil {
			return err
		}
		for _, port := range c.Ports {
			if err := w.App.AwaitPort(ctx, fmt.Sprintf("127.0.0.1:%d", port.ContainerPort)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unhealthyFile is the path of the file that makes the app report that it is unhealthy.
func (w *Workload) unhealthyFile() string { return filepath.Join(w.Node.Dir(), "unhealthy") }

// SetHealthy makes the app report at /health whether it is healthy. It serves all other requests in
// both cases.
func (w *Workload) SetHealthy(healthy bool) error {
	if !healthy {
		return os.WriteFile(w.unhealthyFile(), nil, 0o644)
	}
	if err := os.Remove(w.unhealthyFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startSidecar captures the pod's traffic, starts its agent and waits until Envoy is ready. A
// gateway's traffic is its own.
func (w *Workload) startSidecar(ctx context.Context, s *component.Sidecars) error {
	w.sidecars = s
	probers, err := appProbers(w.Pod)
	if err != nil {
		return err
	}
	w.Agent, err = s.Start(ctx, w.Node, component.Workload{
		Name: w.Pod.Name, Namespace: w.Pod.Namespace, ServiceAccount: serviceAccount(w.Pod), Address: w.Node.Addr(),
		Labels: w.Pod.Labels, NodeName: w.Pod.Spec.NodeName, Gateway: isGateway(w.Pod), AppProbers: probers,
	})
	return err
}

// Restart starts the sidecar of a workload whose agent has ended, as a platform would, and waits until Envoy is ready.
func (w *Workload) Restart(ctx context.Context) error { return w.startSidecar(ctx, w.sidecars) }

// Upgrade ends the sidecar of a workload as a platform does, so that it drains, and starts it again with another Envoy.
func (w *Workload) Upgrade(ctx context.Context, envoy string) error {
	if err := w.Agent.Stop(stopGrace); err != nil {
		return err
	}
	next, err := w.sidecars.WithEnvoy(envoy)
	if err != nil {
		return err
	}
	w.sidecars = next
	return w.Restart(ctx)
}

// RestartApp starts the program of a workload whose program has ended, and waits for its ports.
func (w *Workload) RestartApp(ctx context.Context) error { return w.startApp(ctx, w.binaries) }

// stop ends the sidecar and then the app.
func (w *Workload) stop() error {
	var failed []string
	for _, p := range []*netns.Process{w.Agent, w.App} {
		if p == nil {
			continue
		}
		if err := p.Stop(stopGrace); err != nil {
			failed = append(failed, err.Error())
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("stopping %s: %s", w.Pod.Name, strings.Join(failed, "; "))
	}
	return nil
}
