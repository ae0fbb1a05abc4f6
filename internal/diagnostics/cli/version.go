package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// versions is the output of version --remote.
type versions struct {
	Client   obs.Build          `json:"clientVersion"`
	Replicas []replicaVersion   `json:"meshVersion"`
	Proxies  []dataPlaneVersion `json:"dataPlaneVersion"`
}

type replicaVersion struct {
	Replica string `json:"replica"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

// dataPlaneVersion is a version of the agent and Envoy, and the number of proxies that have it.
type dataPlaneVersion struct {
	Version string `json:"version"`
	Envoy   string `json:"envoy"`
	Proxies int    `json:"proxies"`
}

// versionCommand returns the command that prints the version of pilotctl, and with --remote the
// versions of the replicas and the connected proxies. A replica that does not answer has its error
// instead of a version. It fails if no replica lists its proxies.
func (a *pageClient) versionCommand() *cobra.Command {
	remote := false
	c := command.Version()
	local := c.RunE
	c.Flags().BoolVar(&remote, "remote", false,
		"also print the versions of the replicas of the control plane, and of the proxies")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !remote {
			return local(c, args)
		}
		output, err := c.Flags().GetString("output")
		if err != nil {
			return err
		}
		a.output = cmp.Or(output, tableFormat)
		control, err := a.controlPlane(c.Context())
		if err != nil {
			return err
		}
		v := versions{Client: obs.ReadBuild(), Replicas: []replicaVersion{}}
		for _, r := range control.Replicas {
			v.Replicas = append(v.Replicas, versionOf(c.Context(), r))
		}
		proxies, err := a.readProxies(c)
		if err != nil {
			return err
		}
		v.Proxies = proxyVersions(proxies)
		if !a.isTable() {
			return a.printAnswer(c, answer{whole: v})
		}
		return a.printVersions(c, v)
	}
	return c
}

// versionOf returns the version of a replica. If the request fails, Error is set instead.
func versionOf(ctx context.Context, r *connect.Replica) replicaVersion {
	text, err := readReplica(ctx, r, "/version", nil)
	if err != nil {
		return replicaVersion{Replica: r.Name, Error: err.Error()}
	}
	return replicaVersion{Replica: r.Name, Version: strings.TrimSpace(string(text))}
}

// proxyVersions returns the number of proxies with each pair of versions of the agent and Envoy,
// sorted by these. An Envoy version with several agents is there several times. Unknown versions
// are "unknown".
func proxyVersions(list []proxyState) []dataPlaneVersion {
	counts := map[dataPlaneVersion]int{}
	for _, s := range list {
		counts[dataPlaneVersion{Version: cmp.Or(s.IstioVersion, "unknown"), Envoy: cmp.Or(s.EnvoyVersion, "unknown")}]++
	}
	sorted := slices.SortedFunc(maps.Keys(counts), func(x, y dataPlaneVersion) int {
		return cmp.Or(cmp.Compare(x.Version, y.Version), cmp.Compare(x.Envoy, y.Envoy))
	})
	for i := range sorted {
		sorted[i].Proxies = counts[sorted[i]]
	}
	return sorted
}

// printVersions prints a line for each version, in istioctl's words, and a line if no proxy is
// connected. Replicas that did not answer have the error instead of the version. It ignores errors
// of writing and returns nil.
func (a *pageClient) printVersions(c *cobra.Command, v versions) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "client version: %s\n", v.Client.Version)
	for _, r := range v.Replicas {
		fmt.Fprintf(out, "control plane version (%s): %s\n", r.Replica, cmp.Or(r.Version, r.Error))
	}
	for _, p := range v.Proxies {
		fmt.Fprintf(out, "data plane version: %s, Envoy %s (%d proxies)\n", p.Version, p.Envoy, p.Proxies)
	}
	if len(v.Proxies) == 0 {
		fmt.Fprintln(out, "data plane version: none (no proxies are connected)")
	}
	return nil
}
