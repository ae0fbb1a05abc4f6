package target

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Plane is a control plane that can be measured: its kind and its binary.
type Plane struct{ Kind, Binary string }

// The kinds. Replay is a meshpilot behind a server that replays its responses (package replay): the
// measured process is that server, so its figures are what writing these responses costs at least.
const (
	Meshpilot = "meshpilot"
	Istiod    = "istiod"
	Replay    = "replay"
)

// ReplayCommand is the command of meshbench that runs package replay.
const ReplayCommand = "replay"

// ParsePlane reads "kind=binary", or a binary alone, which is a meshpilot.
func ParsePlane(text string) (Plane, error) {
	kind, binary, ok := strings.Cut(text, "=")
	if !ok {
		kind, binary = Meshpilot, text
	}
	if kind != Meshpilot && kind != Istiod && kind != Replay {
		return Plane{}, fmt.Errorf("control plane %q: want %s=BINARY, %s=BINARY or %s=BINARY", text, Meshpilot, Istiod, Replay)
	}
	if _, err := os.Stat(binary); err != nil {
		return Plane{}, fmt.Errorf("control plane %q: %w", text, err)
	}
	return Plane{Kind: kind, Binary: binary}, nil
}

// Settings are the start parameters of a control plane. All addresses are of this machine.
type Settings struct {
	// Dir is for files of the run's own.
	Dir string
	// ConfigDir is the directory of config files; empty: config comes from ConfigSource,
	// "xds://host:port".
	ConfigDir, ConfigSource string
	// XDS serves plain text, SecureXDS TLS with the Keys; HTTP and Monitoring have pages.
	XDS, SecureXDS, HTTP, Monitoring string
	Keys                             *Keys
	// MeshConfig is the mesh configuration as YAML, without configSources.
	MeshConfig string
	// Kubeconfig is of the API server that config and services come from, or of an empty one where
	// they come from elsewhere: most versions of istiod do not start without one.
	Kubeconfig string
	// Environment is added to that of this program.
	Environment []string
}

// HeapURL is the page that runs a garbage collection and shows the live heap.
func (s Settings) HeapURL() string { return "http://" + s.HTTP + "/debug/pprof/heap?debug=1&gc=1" }

// MetricsURL is the page with counters.
func (s Settings) MetricsURL() string { return "http://" + s.Monitoring + "/metrics" }

// command returns the command that starts the control plane. For Replay it is this program's own.
func (p Plane) command(s Settings) (*exec.Cmd, error) {
	if p.Kind == Replay {
		return replayCommand(p.Binary, s)
	}
	args, environment, err := p.commandLine(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.Binary, args...)
	cmd.Env = append(os.Environ(), environment...)
	return cmd, nil
}

// replayCommand writes the settings into a file for package replay.
func replayCommand(binary string, s Settings) (*exec.Cmd, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.Dir, "replay.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, fmt.Errorf("write the settings of the replay: %w", err)
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(own, ReplayCommand, binary, file), nil
}

// commandLine returns arguments and environment of the control plane.
func (p Plane) commandLine(s Settings) (args, environment []string, err error) {
	meshFile := filepath.Join(s.Dir, "mesh.yaml")
	text := s.MeshConfig
	if s.ConfigSource != "" {
		text += fmt.Sprintf("configSources: [{address: %q}]\n", s.ConfigSource)
	}
	if text == "" {
		text = "{}\n"
	}
	if err := os.WriteFile(meshFile, []byte(text), 0o644); err != nil {
		return nil, nil, fmt.Errorf("write the mesh config: %w", err)
	}
	args = []string{"discovery", "--meshConfig", meshFile, "--networksConfig", filepath.Join(s.Dir, "none"),
		"--grpcAddr", s.XDS, "--httpAddr", s.HTTP, "--monitoringAddr", s.Monitoring, "--httpsAddr="}
	if s.ConfigDir != "" {
		args = append(args, "--configDir", s.ConfigDir)
	}
	if s.Keys != nil {
		args = append(
			args,
			"--secureGRPCAddr",
			s.SecureXDS,
			"--tlsCertFile",
			s.Keys.Certificate,
			"--tlsKeyFile",
			s.Keys.Key,
			"--caCertFile",
			s.Keys.Authority,
		)
	} else {
		args = append(args, "--secureGRPCAddr=")
	}
	environment = append(environment, "POD_NAMESPACE=istio-system", "POD_NAME=bench")
	switch p.Kind {
	case Istiod:
		registries := ""
		if s.Kubeconfig != "" {
			registries = "Kubernetes"
			args = append(args, "--kubeconfig", s.Kubeconfig)
		}
		args = append(args, "--registries="+registries, "--ctrlz_port", "0", "--ctrlz_address", "127.0.0.1")
		environment = append(environment, "ENABLE_CA_SERVER=false")
	default:
		environment = append(environment, "KUBECONFIG=") // the shell's own cluster has no part in it
		registries := ""
		if s.Kubeconfig != "" && s.ConfigDir == "" && s.ConfigSource == "" {
			registries = "Kubernetes"
			args = append(args, "--kubeconfig", s.Kubeconfig)
		}
		args = append(args, "--registries="+registries)
	}
	return args, append(environment, s.Environment...), nil
}
