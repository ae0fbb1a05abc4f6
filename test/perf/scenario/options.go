package scenario

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
)

// Options configure the runs of groups.
type Options struct {
	Plane target.Plane
	// Dir is the directory of the meshes and logs.
	Dir string
	// Source is how config reaches the control plane: file, xds, or xds-delta.
	Source string
	// Delta makes proxies use the incremental protocol, TLS makes them use certificates.
	Delta, TLS bool
	// FilePerObject writes each config object to a file of its own.
	FilePerObject bool
	// Proxies, if not 0, replaces the number of each group; Seed the seed of its mesh.
	Proxies int
	Seed    uint64
	// Only are the names of the scenarios to run; empty: all. Connect is always run.
	Only []string
	// Repeat is the number of single changes of each kind.
	Repeat int
	// Settle is the time without messages after which an event has ended.
	Settle time.Duration
	// Patience is the timeout of each wait.
	Patience time.Duration
	// BasePort is the first of five ports on 127.0.0.1: xDS, xDS over TLS, HTTP, monitoring, config
	// source. Each further control plane has the next five. 0: free ones.
	BasePort int
	// Kubeconfig is for control planes that need an API server.
	Kubeconfig  string
	Environment []string
	// Progress receives progress messages.
	Progress io.Writer
}

// The ways for config.
const (
	FileSource     = "file"
	XDSSource      = "xds"
	XDSDeltaSource = "xds-delta"
)

// Validate returns an error if the options are invalid.
func (o Options) Validate() error {
	switch {
	case !slices.Contains([]string{FileSource, XDSSource, XDSDeltaSource}, o.Source):
		return fmt.Errorf("config source %q: want %s, %s or %s", o.Source, FileSource, XDSSource, XDSDeltaSource)
	case o.Plane.Kind == target.Replay && !o.Delta:
		return fmt.Errorf("control plane %s: serves only the protocol delta", o.Plane.Kind)
	case o.Repeat < 1:
		return fmt.Errorf("repeat %d: want at least 1", o.Repeat)
	}
	return nil
}
