package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/perf/target"
)

// Options describe a run.
type Options struct {
	// Planes are the control planes, which are compared with the last one.
	Planes []target.Plane
	// Envoy is the path of an Envoy.
	Envoy string
	// Capture is the path of istio-iptables. Only load needs it.
	Capture string
	// Services are the sizes of the meshes. Load is measured in the first one.
	Services []int
	// Rounds is the number of measurements of each sidecar, or pair of sidecars.
	Rounds int
	// Rates are requests a second, Duration the time of each measurement of load.
	Rates    []int
	Duration time.Duration
	// AtOnce measures loads of all control planes at the same time: other programs on the machine then
	// affect their CPU times equally, but latencies mean nothing.
	AtOnce bool
	// Scenes and Protocols select what is measured of load. If empty, all are.
	Scenes    []string
	Protocols []Protocol
	// Dir keeps meshes, logs and the configurations of the Envoys of a load. It must exist.
	Dir string
	// Progress receives messages. With AtOnce it must allow concurrent writes.
	Progress io.Writer
}

// Variant is a control plane with the features of its mesh and sidecars.
type Variant struct {
	Plane    target.Plane
	Features Features
	// OnDemand makes sidecars fetch clusters when they first call them (ADR 52). They call none here.
	OnDemand bool
}

// name returns what the rows of the variant are called.
func (v Variant) name() string {
	name := v.Plane.Kind
	if features := v.Features.String(); features != "" {
		name += " with " + features
	}
	if v.OnDemand {
		name += ", on demand"
	}
	return name
}

// acceptedByEnvoy reports whether upstream Envoy has the extensions that the configuration uses.
// That of istiod counts requests with a filter of Istio's Envoy.
func (v Variant) acceptedByEnvoy() bool {
	return v.Plane.Kind != target.Istiod || !v.Features.Metrics
}

// clientAddress is the address of the measured sidecar.
var clientAddress = netip.AddrFrom4([4]byte{10, 66, 0, 2}) //nolint:gochecknoglobals // a constant

// MeasureSizes measures sidecars of all control planes in meshes of all sizes, with and without
// metrics.
func MeasureSizes(ctx context.Context, o Options) ([]Size, error) {
	return measure(ctx, o, o.measureMeshes)
}

// measure calls f with a network and an empty API server.
func measure[T any](ctx context.Context, o Options, f func(context.Context, *netns.Network) ([]T, error)) ([]T, error) {
	network, err := netns.New(netns.Options{Dir: o.Dir})
	if err != nil {
		return nil, err
	}
	api, err := target.StartEmptyAPI(o.kubeconfig())
	if err != nil {
		return nil, errors.Join(err, network.Close())
	}
	results, err := f(ctx, network)
	return results, errors.Join(err, network.Close(), api.Close())
}

// kubeconfig is the path of the kubeconfig of an empty API server, for istiod.
func (o Options) kubeconfig() string { return filepath.Join(o.Dir, "kubeconfig") }

func (o Options) measureMeshes(ctx context.Context, network *netns.Network) ([]Size, error) {
	node, err := network.AddNode(netns.NodeOptions{Name: "client", Addrs: []netip.Addr{clientAddress}})
	if err != nil {
		return nil, err
	}
	var all []Size
	for _, services := range o.Services {
		sizes, err := o.measureMesh(ctx, node, services)
		all = append(all, sizes...)
		if err != nil {
			return all, fmt.Errorf("%d services: %w", services, err)
		}
	}
	return all, nil
}

// measureMesh measures a mesh of one size. All control planes run at the same time, so that their
// sidecars can be measured in turns.
func (o Options) measureMesh(ctx context.Context, node *netns.Node, services int) ([]Size, error) {
	var running []*plane
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	for i, v := range o.variants() {
		dir := filepath.Join(o.Dir, fmt.Sprintf("%d-%d", services, i))
		if err := writeMesh(configDir(dir), services, v.Features); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.Progress, "%d services: starting %s\n", services, v.name())
		p, err := o.startPlane(ctx, v, dir)
		if err != nil {
			return nil, err
		}
		running = append(running, p)
	}
	var sizes []Size
	for round := range o.Rounds {
		for _, p := range running {
			s, err := o.measureSize(ctx, node, p)
			if err != nil {
				return sizes, fmt.Errorf("%s: %w", p.variant.name(), err)
			}
			s.Services, s.Variant = services, p.variant
			sizes = append(sizes, s)
			fmt.Fprintf(o.Progress, "round %d of %d, %s\n", round+1, o.Rounds, s)
		}
	}
	for _, p := range running {
		if err := os.RemoveAll(p.settings.ConfigDir); err != nil {
			return sizes, err
		}
	}
	return sizes, nil
}

// variants returns all control planes, each with and without metrics, and also with clusters on
// demand if supported.
func (o Options) variants() []Variant {
	var list []Variant
	for _, p := range o.Planes {
		for _, metrics := range []bool{false, true} {
			list = append(list, Variant{Plane: p, Features: Features{Metrics: metrics}})
		}
		if p.Kind == target.Meshpilot {
			list = append(list, Variant{Plane: p, Features: Features{Metrics: true}, OnDemand: true})
		}
	}
	return list
}
