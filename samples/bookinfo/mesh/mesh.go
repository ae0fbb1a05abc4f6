package mesh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
)

// Options describe a mesh.
type Options struct {
	// Binaries is the directory of pilot-discovery, pilot-agent, istio-iptables and bookinfo. Required.
	Binaries string
	// Envoy is the path of an Envoy. Required with Sidecars.
	Envoy string
	// Dir is where everything is kept: config/ that the control plane reads, and logs by node. It must exist.
	Dir string
	// Manifests hold the pods and services, see bookinfo.Platform.
	Manifests fs.FS
	// Sidecars runs a control plane, and a captured sidecar beside each app (default false). Without them a service's
	// name resolves to one of its pods.
	Sidecars bool
	// Consul is the path of a Consul program. If set, services are not read from the manifests but
	// from a Consul server, where the instances of each service are registered, see [Consul]. It needs
	// Sidecars.
	Consul string
	// ConsulServers is the number of Consul servers; 0 is 1.
	ConsulServers int
	// InConsul selects the pods that are registered in Consul (default: all that a service selects).
	InConsul func(*corev1.Pod) bool
	// Kubeconfig is the path of the kubeconfig of an API server. If set, the control plane reads its
	// services and pods too, beside Consul.
	Kubeconfig string
	// PrepareControlPlane is called with the node of each control plane before that starts, for instance to
	// make an API server reachable. If nil, it is not called.
	PrepareControlPlane func(*netns.Node) error
	// Hosts are more names that every pod resolves, besides those of services.
	Hosts map[string]netip.Addr
	// Replicas is how many control planes there are, to which the pods are dealt out in turn; 0 is 1.
	Replicas int
	// ControlPlaneArgs are more flags of pilot-discovery, ControlPlaneEnv more variables, "NAME=value".
	ControlPlaneArgs, ControlPlaneEnv []string
	// AgentEnv is more variables for every agent, "NAME=value".
	AgentEnv []string
	// Progress is told what happens, if not nil.
	Progress func(format string, args ...any)
}

// domain is the suffix of services' names.
const domain = "cluster.local"

// Mesh is a running mesh.
type Mesh struct {
	Network      *netns.Network
	ControlPlane *component.ControlPlane // nil without sidecars
	// Others are the further replicas of the control plane.
	Others    []*component.ControlPlane
	Consul    *Consul // nil unless Options.Consul is set
	Rules     *Rules
	Workloads []*Workload // in the order of the manifests

	dir string
}

// Start brings a mesh up and returns when every sidecar is ready. A process that fails to start is a
// *netns.ProcessError, which knows its log.
func Start(ctx context.Context, opts Options) (*Mesh, error) {
	if opts.Progress == nil {
		opts.Progress = func(string, ...any) {}
	}
	platform, err := readPlatform(opts.Manifests)
	if err != nil {
		return nil, err
	}
	if err := absolute(&opts); err != nil {
		return nil, err
	}
	network, err := netns.New(netns.Options{Dir: opts.Dir})
	if err != nil {
		return nil, err
	}
	m := &Mesh{Network: network, dir: opts.Dir}
	if err := m.start(ctx, opts, platform); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return m, nil
}

// absolute resolves the paths of opts, and looks whether the programs are there: better said now than by a sidecar.
func absolute(opts *Options) (err error) {
	for _, path := range []*string{&opts.Binaries, &opts.Envoy, &opts.Dir, &opts.Consul, &opts.Kubeconfig} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	programs := []string{filepath.Join(opts.Binaries, appImage)}
	if opts.Sidecars {
		for _, name := range []string{"pilot-discovery", "pilot-agent", "istio-iptables"} {
			programs = append(programs, filepath.Join(opts.Binaries, name))
		}
		programs = append(programs, opts.Envoy)
	}
	if opts.Consul != "" {
		if !opts.Sidecars {
			return errors.New("services from Consul need sidecars")
		}
		programs = append(programs, opts.Consul)
	}
	for _, path := range programs {
		if _, err := exec.LookPath(path); err != nil {
			return fmt.Errorf("looking for the mesh's programs: %w", err)
		}
	}
	return nil
}

func (m *Mesh) start(ctx context.Context, opts Options, platform *platform) (err error) {
	configDir := filepath.Join(opts.Dir, "config")
	manifests := opts.Manifests
	if opts.Consul != "" {
		manifests = nil
		platform.registered = opts.InConsul
	}
	opts.ControlPlaneArgs = append(opts.registryArgs(), opts.ControlPlaneArgs...)
	m.Rules, err = newRules(configDir, filepath.Join(opts.Dir, "staging"), manifests)
	if err != nil {
		return err
	}
	if err := m.addWorkloads(platform, opts); err != nil {
		return err
	}
	if opts.Consul != "" {
		servers := max(opts.ConsulServers, 1)
		opts.Progress("starting %d Consul servers from %s, and a Consul agent at %s", servers, consulServerAddr(0), consulAgentAddr())
		if m.Consul, err = startConsul(ctx, m.Network, opts.Consul, servers, platform); err != nil {
			return err
		}
		if opts.Kubeconfig == "" { // otherwise these pods are in the API server
			if err := m.Rules.Apply(platform.workloadGroups()); err != nil {
				return err
			}
		}
		opts.Progress("registering %d instances in Consul", m.Consul.Instances())
		if err := m.Consul.registerAll(); err != nil {
			return err
		}
	}
	opts.Progress("starting %d apps", len(m.Workloads))
	start := func(ctx context.Context, w *Workload) error { return w.startApp(ctx, opts.Binaries) }
	if err := m.each(ctx, start); err != nil {
		return err
	}
	if !opts.Sidecars {
		return nil
	}
	caDir := filepath.Join(opts.Dir, "ca")
	if err := m.startControlPlanes(ctx, opts, configDir, caDir); err != nil {
		return err
	}
	s, err := component.NewSidecars(component.SidecarOptions{
		Agent: filepath.Join(opts.Binaries, "pilot-agent"), Capture: filepath.Join(opts.Binaries, "istio-iptables"),
		Envoy: opts.Envoy, CADir: caDir, Domain: domain, Env: opts.AgentEnv,
	})
	if err != nil {
		return err
	}
	opts.Progress("capturing the traffic of %d pods and starting their sidecars", len(m.Workloads))
	err = m.each(ctx, func(ctx context.Context, w *Workload) error {
		if err := w.startSidecar(ctx, s); err != nil {
			return err
		}
		opts.Progress("%s is ready", w.Pod.Name)
		return nil
	})
	if err != nil || m.Consul == nil {
		return err
	}
	return m.Consul.AwaitHealthy(ctx)
}

// registryArgs returns the flags of pilot-discovery that select the registries beside the manifests.
func (o Options) registryArgs() []string {
	var args []string
	if o.Kubeconfig != "" {
		args = append(args, "--registries", "Kubernetes", "--kubeconfig", o.Kubeconfig)
	}
	if o.Consul != "" {
		args = append(args, "--registries", "Consul", "--consulserverURL", consulURL(max(o.ConsulServers, 1)))
	}
	return args
}

// startControlPlanes starts all replicas of the control plane, one after the other: the first makes the authority.
func (m *Mesh) startControlPlanes(ctx context.Context, opts Options, configDir, caDir string) error {
	for i := range max(opts.Replicas, 1) {
		name := "istiod"
		if i > 0 {
			name += fmt.Sprint("-", i+1)
		}
		opts.Progress("starting the control plane at %s", discovery(i))
		c, err := component.AddControlPlane(m.Network, component.ControlPlaneOptions{
			Name: name, Addr: discovery(i), Program: filepath.Join(opts.Binaries, "pilot-discovery"),
			ConfigDir: configDir, CADir: caDir, Domain: domain,
			Args: opts.ControlPlaneArgs, Env: opts.ControlPlaneEnv,
		})
		if err != nil {
			return err
		}
		if i == 0 {
			m.ControlPlane = c
		} else {
			m.Others = append(m.Others, c)
		}
		if opts.PrepareControlPlane != nil {
			if err := opts.PrepareControlPlane(c.Node); err != nil {
				return err
			}
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// discovery is the address of a replica of the control plane.
func discovery(replica int) netip.Addr { return netip.AddrFrom4([4]byte{10, 66, 0, byte(2 + replica)}) }

func (m *Mesh) addWorkloads(platform *platform, opts Options) error {
	address := clusterIP
	if !opts.Sidecars {
		address = platform.firstEndpoint
	}
	for i, pod := range platform.pods {
		hosts, err := platform.hosts(pod.Namespace, domain, address)
		if err != nil {
			return err
		}
		if opts.Consul != "" {
			if hosts, err = platform.consulHosts(); err != nil {
				return err
			}
		}
		hosts[component.ControlPlaneHost] = discovery(i % max(opts.Replicas, 1))
		maps.Copy(hosts, opts.Hosts)
		w, err := addWorkload(m.Network, pod, hosts)
		if err != nil {
			return err
		}
		if opts.Consul != "" {
			w.env = platform.consulAddresses()
		}
		m.Workloads = append(m.Workloads, w)
	}
	return nil
}

// each does something to all workloads at once.
func (m *Mesh) each(ctx context.Context, do func(context.Context, *Workload) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, w := range m.Workloads {
		group.Go(func() error { return do(ctx, w) })
	}
	return group.Wait()
}

// Workload returns the workload of a pod, nil if there is none.
func (m *Mesh) Workload(pod string) *Workload {
	for _, w := range m.Workloads {
		if w.Pod.Name == pod {
			return w
		}
	}
	return nil
}

// Close ends the mesh in order: sidecars and apps by SIGTERM, then the control plane, then what is left of processes,
// and the namespaces. The directory stays. The error tells what did not end by itself.
func (m *Mesh) Close() error {
	errs := []error{m.each(context.Background(), func(_ context.Context, w *Workload) error { return w.stop() })}
	if m.ControlPlane != nil {
		errs = append(errs, m.ControlPlane.Stop())
	}
	for _, c := range m.Others {
		errs = append(errs, c.Stop())
	}
	if m.Consul != nil {
		errs = append(errs, m.Consul.stop())
	}
	errs = append(errs, m.Network.Close(), os.RemoveAll(filepath.Join(m.dir, "staging")))
	return errors.Join(errs...)
}
