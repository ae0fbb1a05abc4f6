package component

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	// proxyUID is the user of sidecars as root, as in Istio. Its traffic is not captured.
	proxyUID = 1337
	// proxyMark is the mark of a sidecar's sockets in a user namespace, where no other user exists.
	proxyMark = 1337

	// readyURL answers 200 when Envoy has its configuration.
	readyURL = "http://127.0.0.1:15021/healthz/ready"

	captureTime = 20 * time.Second
	readyTime   = 60 * time.Second
)

// SidecarOptions are what all sidecars of a mesh have in common.
type SidecarOptions struct {
	// Agent, Capture and Envoy are the paths of pilot-agent, istio-iptables and Envoy.
	Agent, Capture, Envoy string
	// CADir is the directory of the mesh's authority.
	CADir string
	// Domain is the suffix of the names of services.
	Domain string
	// CaptureDNS makes the agents answer the DNS requests of applications (default false).
	CaptureDNS bool
	// Env is more variables for every agent, "NAME=value".
	Env []string
}

// Sidecars starts sidecars with the same options. It is immutable.
type Sidecars struct {
	options   SidecarOptions
	hasUID    bool // whether processes can run as proxyUID
	hasTables bool // whether iptables is installed
}

// Workload is what a sidecar reports of its workload.
type Workload struct {
	Name, Namespace string
	ServiceAccount  string
	Address         netip.Addr
	Labels          map[string]string
	// NodeName is the name of the machine. It may be empty.
	NodeName string
	// Gateway is set if the proxy is a gateway: traffic is not captured.
	Gateway bool
	// AppProbers are the probes that the agent forwards to the application
	// (ISTIO_KUBE_APP_PROBERS).
	AppProbers string
}

// NewSidecars returns the sidecars of a mesh. If processes can run as proxyUID (netns.MapsUID), as
// with root, it exposes the agent and Envoy to that user. Directories above them are often closed.
// It returns an error only if that fails.
func NewSidecars(o SidecarOptions) (*Sidecars, error) {
	_, err := exec.LookPath("iptables-restore")
	s := &Sidecars{options: o, hasUID: netns.MapsUID(proxyUID), hasTables: err == nil}
	if !s.hasUID {
		return s, nil
	}
	for _, path := range []*string{&s.options.Agent, &s.options.Envoy} {
		exposed, err := netns.Expose(*path)
		if err != nil {
			return nil, err
		}
		*path = exposed
	}
	return s, nil
}

// WithEnvoy returns the same sidecars with another Envoy. s is not modified. The file is exposed to
// the proxy's user if there is one.
func (s *Sidecars) WithEnvoy(path string) (*Sidecars, error) {
	next := *s
	next.options.Envoy = path
	if s.hasUID {
		var err error
		if next.options.Envoy, err = netns.Expose(path); err != nil {
			return nil, err
		}
	}
	return &next, nil
}

// Start captures the traffic of a node, unless w is a gateway, writes the workload's token and
// roots, and starts its agent. It waits until Envoy is ready, at most for readyTime. It returns the
// agent also with an error, if the agent was started. It can be called again when the agent has
// ended.
func (s *Sidecars) Start(ctx context.Context, node *netns.Node, w Workload) (*netns.Process, error) {
	if !w.Gateway {
		if err := s.captureTraffic(ctx, node); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(node.Dir(), "proxy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := writeIdentity(ctx, s.options.CADir, w, dir); err != nil {
		return nil, fmt.Errorf("preparing the sidecar of %s: %w", w.Name, err)
	}
	if s.hasUID {
		var err error
		if dir, err = exposeToProxy(dir); err != nil {
			return nil, err
		}
	}
	command, err := s.agentCommand(w, dir)
	if err != nil {
		return nil, err
	}
	agent, err := node.Start(command)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return agent, agent.AwaitOK(ctx, readyURL)
}

// exposeToProxy makes proxyUID the owner of a directory and everything in it, and returns a path at
// which that user can reach it.
func exposeToProxy(dir string) (string, error) {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, proxyUID, proxyUID)
	})
	if err != nil {
		return "", err
	}
	return netns.Expose(dir)
}

// captureTraffic redirects the traffic of a node to its sidecar, and returns when that is done. It
// fails if the rules cannot be applied within captureTime.
func (s *Sidecars) captureTraffic(ctx context.Context, node *netns.Node) error {
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	p, err := node.Start(s.captureCommand())
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// captureCommand returns the command that redirects the traffic of a node to its sidecar. Without a
// separate user for the proxy, its sockets are recognized by proxyMark. Without that user or
// without iptables, the rules are made by nftables.
func (s *Sidecars) captureCommand() netns.Command {
	args := []string{
		"-p", "15001", "-z", "15006", "-u", strconv.Itoa(proxyUID), "-m", "REDIRECT",
		"-i", "*", "-x", "", "-b", "*", "-d", "15090,15021,15020",
	}
	if s.options.CaptureDNS {
		args = append(args, "--redirect-dns", "--capture-all-dns")
	}
	if !s.hasUID {
		args = append(args, "--proxy-mark", strconv.Itoa(proxyMark))
	}
	if !s.hasUID || !s.hasTables {
		args = append(args, "--native-nftables")
	}
	return netns.Command{Name: "capture", Path: s.options.Capture, Args: args}
}

// agentCommand returns the command of a workload's agent, which runs in dir and writes Envoy's
// bootstrap there. Without a user of its own (hasUID), the agent marks the proxy's sockets instead.
// Options.Env comes last, so it overrides.
func (s *Sidecars) agentCommand(w Workload, dir string) (netns.Command, error) {
	proxyConfig, err := json.Marshal(map[string]any{
		"discoveryAddress": ControlPlaneHost + ":15012",
		"binaryPath":       s.options.Envoy,
		"configPath":       dir,
		"concurrency":      1,
		// A mesh on one machine is closed when nothing is in progress.
		"terminationDrainDuration": "1s",
	})
	if err != nil {
		return netns.Command{}, fmt.Errorf("rendering the proxy configuration of %s: %w", w.Name, err)
	}
	labels, err := json.Marshal(w.Labels)
	if err != nil {
		return netns.Command{}, fmt.Errorf("rendering the labels of %s: %w", w.Name, err)
	}
	proxyType := "sidecar"
	if w.Gateway {
		proxyType = "router"
	}
	command := netns.Command{
		Name: "agent",
		Path: s.options.Agent,
		Args: []string{"proxy", proxyType, "--domain", w.Namespace + ".svc." + s.options.Domain},
		Dir:  dir,
		Env: []string{
			"POD_NAME=" + w.Name,
			"POD_NAMESPACE=" + w.Namespace,
			"INSTANCE_IP=" + w.Address.String(),
			"SERVICE_ACCOUNT=" + w.ServiceAccount,
			"PROXY_CONFIG=" + string(proxyConfig),
			"TRUST_DOMAIN=" + s.options.Domain,
			"ISTIO_METAJSON_LABELS=" + string(labels),
			"ISTIO_KUBE_APP_PROBERS=" + w.AppProbers,
			"ISTIO_META_CLUSTER_ID=Kubernetes",
			"ISTIO_META_MESH_ID=" + s.options.Domain,
			"ISTIO_META_WORKLOAD_NAME=" + w.Name,
			"ISTIO_META_NODE_NAME=" + w.NodeName,
			"ISTIO_META_INTERCEPTION_MODE=REDIRECT",
			"ISTIO_META_DNS_CAPTURE=" + strconv.FormatBool(s.options.CaptureDNS),
		},
	}
	if s.hasUID {
		command.UID = proxyUID
	} else {
		command.Env = append(command.Env, "MESHPILOT_SOCKET_MARK="+strconv.Itoa(proxyMark))
	}
	command.Env = append(command.Env, s.options.Env...)
	return command, nil
}
