package dataplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// MeasureLoads measures requests through pairs of sidecars of all control planes: with mutual TLS and in
// plain text, with each feature, in each protocol, at each rate.
func MeasureLoads(ctx context.Context, o Options) ([]Load, error) {
	return measure(ctx, o, o.measureLoads)
}

// scene is a set of features and the protocols in which requests are sent.
type scene struct {
	name      string
	features  Features
	protocols []Protocol
}

func scenes() []scene {
	few := []Protocol{HTTP1, TCP}
	return []scene{
		{"mutual TLS", Features{}, Protocols()},
		{"plain text", Features{Plaintext: true}, Protocols()},
		{"metrics", Features{Metrics: true}, few},
		{"access log", Features{AccessLog: true}, few},
		{"policies", Features{Policies: true}, few},
	}
}

// Scenes returns the names of the scenes of a load: mutual TLS alone, and with one difference each.
func Scenes() []string {
	var names []string
	for _, s := range scenes() {
		names = append(names, s.name)
	}
	return names
}

func (o Options) measureLoads(ctx context.Context, network *netns.Network) ([]Load, error) {
	var all []Load
	for i, s := range scenes() {
		if len(o.Scenes) > 0 && !slices.Contains(o.Scenes, s.name) {
			continue
		}
		loads, err := o.measureScene(ctx, network, i, s)
		all = append(all, loads...)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}

// measureScene starts a pair for each control plane, and measures them in turns.
func (o Options) measureScene(
	ctx context.Context,
	network *netns.Network,
	number int,
	s scene,
) (loads []Load, err error) {
	pairs, err := o.startPairs(ctx, network, number, s.features)
	defer func() {
		for _, p := range pairs {
			err = errors.Join(err, p.close())
			p.plane.stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	for _, protocol := range s.protocols {
		if len(o.Protocols) > 0 && !slices.Contains(o.Protocols, protocol) {
			continue
		}
		for _, rate := range o.Rates {
			more, err := o.measureRounds(ctx, pairs, protocol, rate)
			loads = append(loads, more...)
			if err != nil {
				return loads, err
			}
		}
	}
	for _, p := range pairs {
		if err := p.writeDumps(ctx); err != nil {
			return loads, err
		}
	}
	return loads, nil
}

// measureRounds measures a load through all pairs, in the reverse order in every other round: what
// becomes slower or faster with time does not favour one of them. With o.AtOnce all pairs are measured
// at the same time instead.
func (o Options) measureRounds(
	ctx context.Context,
	pairs []*pair,
	protocol Protocol,
	rate int,
) (loads []Load, err error) {
	pairs = slices.Clone(pairs)
	for range o.Rounds {
		var round []Load
		if o.AtOnce {
			round, err = o.measureAtOnce(ctx, pairs, protocol, rate)
		} else {
			round, err = o.measureInTurns(ctx, pairs, protocol, rate)
		}
		for _, l := range round {
			loads = append(loads, l)
			fmt.Fprintln(o.Progress, l)
		}
		if err != nil {
			return loads, err
		}
		slices.Reverse(pairs)
	}
	return loads, nil
}

// measureInTurns measures one pair after the other.
func (o Options) measureInTurns(
	ctx context.Context,
	pairs []*pair,
	protocol Protocol,
	rate int,
) (loads []Load, err error) {
	for _, p := range pairs {
		l, err := o.measureLoad(ctx, p, protocol, rate)
		if err != nil {
			return loads, err
		}
		loads = append(loads, l)
	}
	return loads, nil
}

// measureAtOnce measures all pairs at the same time. The Envoys of the other pairs count as other
// programs.
func (o Options) measureAtOnce(ctx context.Context, pairs []*pair, protocol Protocol, rate int) ([]Load, error) {
	loads, errs := make([]Load, len(pairs)), make([]error, len(pairs))
	var running sync.WaitGroup
	for i, p := range pairs {
		running.Go(func() { loads[i], errs[i] = o.measureLoad(ctx, p, protocol, rate) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return loads, nil
}

// startPairs starts a pair for each control plane whose configuration Envoy accepts. The pairs that were
// started are returned also with an error.
func (o Options) startPairs(
	ctx context.Context,
	network *netns.Network,
	number int,
	f Features,
) (pairs []*pair, err error) {
	for i, plane := range o.Planes {
		v := Variant{Plane: plane, Features: f}
		if !v.acceptedByEnvoy() {
			continue
		}
		dir := filepath.Join(o.Dir, fmt.Sprintf("load-%d-%d", number, i))
		_, server := addressesOf(i)
		if err := errors.Join(
			writeMesh(configDir(dir), o.Services[0], f), writeService(configDir(dir), server, f),
		); err != nil {
			return pairs, err
		}
		fmt.Fprintf(o.Progress, "starting a pair of sidecars of %s\n", v.name())
		p, err := o.startPlane(ctx, v, dir)
		if err != nil {
			return pairs, err
		}
		x, err := o.startPair(ctx, network, i, p)
		if err != nil {
			p.stop()
			return pairs, err
		}
		pairs = append(pairs, x)
	}
	return pairs, nil
}
