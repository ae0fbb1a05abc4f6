package zeroloss

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
)

// event is a change that is made while requests run.
type event struct {
	name string
	// still is set if the event affects no listener, ours if it is detected by names of this
	// control plane.
	still, ours bool
	// named is set if the event is made only if -events names it.
	named bool
	// do makes the change.
	do func(context.Context, *stage) error
	// seen waits until the proxies have applied the change; since is its start time.
	seen func(ctx context.Context, s *stage, since time.Time) error
}

// events returns one round, in order. Each event starts with the state that the previous one has
// left, and the last one restores the initial state.
func events() []event {
	return []event{
		{name: "add and use a subset", seen: all(versionIs("v2"), clusterIs(true)),
			do: edit(func(s *state) { s.Subset, s.V1, s.V2 = true, 0, 100 })},
		{name: "switch weights", seen: generationSeen,
			do: edit(func(s *state) { s.V1, s.V2 = 50, 50 })},
		{name: "add a policy", seen: policySeen, still: true, ours: true, do: edit(func(s *state) { s.Denied = "/first" })},
		{name: "edit a policy", seen: policySeen, still: true, ours: true, do: edit(func(s *state) { s.Denied = "/second" })},
		{name: "remove a policy", seen: policySeen, still: true, ours: true, do: edit(func(s *state) { s.Denied = "" })},
		{name: "PERMISSIVE to STRICT", seen: peersSeen, ours: true, do: mode("STRICT")},
		{name: "STRICT to DISABLE", seen: peersSeen, ours: true, do: mode("DISABLE")},
		{name: "DISABLE to STRICT", seen: peersSeen, ours: true, do: mode("STRICT")},
		{name: "STRICT to PERMISSIVE", seen: peersSeen, ours: true, do: mode("")},
		{name: "PERMISSIVE to DISABLE", seen: peersSeen, ours: true, do: mode("DISABLE")},
		{name: "DISABLE to PERMISSIVE", seen: peersSeen, ours: true, do: mode("")},
		{name: "rename a port", seen: generationSeen,
			do: edit(func(s *state) { s.Suffix = toggled(s.Suffix) })},
		{name: "rename a Kubernetes port", seen: generationOf("kube"), do: renameKube},
		// They replace the listeners of all ports of the Service, so that Envoy ends long streams when these have drained.
		{name: "add the first mesh routes", seen: all(generationOf("kube"), meshRoutesSeen), ours: true, named: true,
			do: edit(func(s *state) { s.MeshRoutes = true })},
		{name: "edit mesh routes", seen: generationOf("kube"), still: true, ours: true, named: true, do: edit(func(*state) {})},
		{name: "remove the last mesh routes", seen: all(generationOf("kube"), meshRoutesSeen), ours: true, named: true,
			do: edit(func(s *state) { s.MeshRoutes = false })},
		{name: "change pool settings", seen: poolSeen,
			do: edit(func(s *state) { s.MaxConnections++ })},
		{name: "change TLS", seen: tlsSeen,
			do: edit(func(s *state) { s.TLS = !s.TLS })},
		{name: "scale 1 to 10", seen: hostsSeen(10),
			do: edit(func(s *state) { s.Addresses = servers(10) })},
		{name: "remove a subset", seen: all(versionIs("v1"), clusterIs(false)),
			do: edit(func(s *state) { s.Subset, s.V1, s.V2 = false, 100, 0 })},
		{name: "scale 10 to 1", seen: hostsSeen(1),
			do: edit(func(s *state) { s.Addresses = servers(1) })},
		{name: "restart, SIGTERM", seen: all(generationSeen, poolSeen), do: restart((*stage).stop)},
		{name: "restart, SIGKILL", seen: all(generationSeen, poolSeen), do: restart((*stage).kill)},
		{name: "break by NACK", seen: nackSeen, do: breakRule},
		{name: "change TLS while broken", seen: tlsSeen,
			do: edit(func(s *state) { s.TLS = !s.TLS })},
		{name: "mend", seen: generationSeen,
			do: edit(func(s *state) { s.Broken = "" })},
	}
}

// sliceLag is how long after a Service Kubernetes may bring its EndpointSlices up to date.
const sliceLag = 200 * time.Millisecond

// renameKube renames the ports of a Kubernetes Service as Kubernetes does: its endpoints follow later.
func renameKube(ctx context.Context, s *stage) error {
	s.state.KubeSuffix = toggled(s.state.KubeSuffix)
	if err := s.apply(); err != nil {
		return err
	}
	select {
	case <-time.After(sliceLag):
	case <-ctx.Done():
	}
	return edit(func(s *state) { s.SliceSuffix = s.KubeSuffix })(ctx, s)
}

// toggled changes the suffix of port names.
func toggled(suffix string) string {
	if suffix == "" {
		return "-api"
	}
	return ""
}

// edit applies a change; every edit of echo.mesh has a generation of its own, by which answers over HTTP show it.
func edit(change func(*state)) func(context.Context, *stage) error {
	return func(_ context.Context, s *stage) error {
		change(&s.state)
		s.state.Generation++
		return s.apply()
	}
}

// mode changes how the servers take mutual TLS; "" is as ever, PERMISSIVE.
func mode(to string) func(context.Context, *stage) error {
	change := edit(func(s *state) { s.Peers = to })
	return func(ctx context.Context, s *stage) error {
		if *stalled == 0 {
			return change(ctx, s)
		}
		process := slices.Concat([]*component.ControlPlane{s.ControlPlane}, s.Others)[*stalled-1].Process()
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		err := change(ctx, s)
		select {
		case <-time.After(stallTime):
		case <-ctx.Done():
		}
		return errors.Join(err, process.Signal(syscall.SIGCONT))
	}
}

// stallTime is how long a control plane is paused.
const stallTime = 2 * time.Second

// restart stops the control plane, edits the rules, and starts it again.
func restart(end func(*stage) error) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := end(s); err != nil {
			return err
		}
		if err := edit(func(s *state) { s.MaxConnections++ })(ctx, s); err != nil {
			return err
		}
		return s.ControlPlane.Start(ctx)
	}
}

func (s *stage) stop() error { return s.ControlPlane.Stop() }
func (s *stage) kill() error { return s.ControlPlane.Kill() }

// refusedByEnvoy is an expression that is in order for Go and for istiod, and too large for Envoy's RE2 when compiled.
const refusedByEnvoy = `\pL{1000}\pL{1000}\pL{1000}\pL{1000}\pL{1000}\pL{1000}\pL{1000}\pL{1000}`

// refusal is in what Envoy's gRPC subscription logs of a refusal; each of the others that hear of it has words of its own.
const refusal = "gRPC config for type.googleapis.com/"

// breakRule makes a rule that Envoy refuses. It changes nothing else.
func breakRule(_ context.Context, s *stage) error {
	n, err := s.refusals()
	if err != nil {
		return err
	}
	s.refused = n
	s.state.Broken = refusedByEnvoy
	return s.apply()
}

// names lists events.
func names(list []event) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.name)
	}
	return slices.Compact(out)
}
