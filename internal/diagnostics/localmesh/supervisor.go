package localmesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

const (
	// domain is the suffix of the names of services.
	domain = "cluster.local"
	// controlPlaneName is the name of the node of the control plane.
	controlPlaneName = "istiod"
	// controlPlaneBackoff is how long after its end the control plane is started again.
	controlPlaneBackoff = time.Second
)

// Options describe a mesh.
type Options struct {
	// Dir is the directory of the mesh's state.
	Dir string `json:"dir"`
	// Manifests are the files and directories with the user's objects.
	Manifests []string `json:"manifests"`
	Programs  Programs `json:"programs"`
	// MeshConfig is the path of a file with the mesh configuration. If empty, it is
	// defaultMeshConfig.
	MeshConfig string `json:"meshConfig,omitempty"`
}

// defaultMeshConfig is the mesh configuration without Options.MeshConfig: access logs in the logs
// of the agents, beside Istio's defaults.
const defaultMeshConfig = "accessLogFile: /dev/stdout\n"

// Supervisor runs a mesh. It must be in a sandbox, see package netns.
type Supervisor struct {
	options  Options
	log      *slog.Logger
	network  *netns.Network
	config   *configWriter
	sidecars *component.Sidecars
	plane    *component.ControlPlane
	stop     func() // ends the mesh
	progress progressLog
	read     string // fingerprint of the manifests before start read them
	// background are the goroutines that use the control plane.
	background sync.WaitGroup
	// started is closed when the first workloads are being started, or that has failed; settled
	// when each of them has been ready or has failed.
	started, settled chan struct{}

	mu        sync.Mutex
	addresses *addressPool // of workloads
	services  *addressPool
	workloads map[string]*workload // by full name
	manifests *manifests
	problems  []string
	consoleAt string // address on the machine at which the control plane is served
	failure   error  // why the mesh could not be started
}

// Run runs a mesh until ctx is canceled or a client asks for its end. If the control plane or the
// manifests cannot be started, it logs that and reports it to clients that wait, but runs until its
// end. It returns an error only if the network or the socket cannot be created, or ending the mesh
// fails.
func Run(ctx context.Context, o Options, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &Supervisor{
		options:   o,
		log:       log,
		stop:      stop,
		started:   make(chan struct{}),
		settled:   make(chan struct{}),
		addresses: newAddressPool(workloadRange, netip.MustParseAddr("10.66.1.0")),
		services:  newAddressPool(serviceRange, netip.MustParseAddr("10.96.0.0")),
		workloads: map[string]*workload{},
	}
	var err error
	if s.network, err = netns.New(netns.Options{Dir: filepath.Join(o.Dir, nodesDir)}); err != nil {
		return err
	}
	server, err := control.Listen(filepath.Join(o.Dir, control.SocketName), s.handlers(ctx))
	if err != nil {
		return errors.Join(err, s.network.Close())
	}
	s.failure = s.start(ctx)
	close(s.started)
	go s.awaitWorkloads(ctx)
	if s.failure != nil {
		log.Error("starting the mesh failed", "error", s.failure)
	} else {
		s.followManifests(ctx)
	}
	<-ctx.Done()
	return errors.Join(server.Close(), s.close())
}

// start writes the configuration, starts the control plane, waits until that is ready, and starts
// the workloads of the manifests without waiting for them. It stops at the first error, for example
// if a manifest cannot be read or the control plane does not become ready. It reports its progress
// to clients, and keeps the control plane running once it was ready.
func (s *Supervisor) start(ctx context.Context) (err error) {
	dir := s.options.Dir
	if s.config, err = newConfigWriter(filepath.Join(dir, configDir), filepath.Join(dir, stagingDir)); err != nil {
		return err
	}
	s.read = fingerprint(s.options.Manifests)
	m, err := readManifests(s.options.Manifests)
	if err != nil {
		return err
	}
	if err := s.writeFiles(m); err != nil {
		return err
	}
	meshConfig := s.options.MeshConfig
	if meshConfig == "" {
		meshConfig = filepath.Join(dir, meshConfigFile)
		if err := os.WriteFile(meshConfig, []byte(defaultMeshConfig), 0o600); err != nil {
			return err
		}
	}
	s.progress.add("starting the control plane")
	authority := filepath.Join(dir, caDir)
	plane, err := component.AddControlPlane(s.network, component.ControlPlaneOptions{
		Name: controlPlaneName, Addr: controlPlaneAddr, Program: s.options.Programs.Discovery,
		ConfigDir: filepath.Join(dir, configDir), CADir: authority, Domain: domain,
		Args: []string{"--meshConfig", meshConfig},
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.plane = plane // clients may look for its node already
	s.mu.Unlock()
	if err := plane.Start(ctx); err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	s.background.Go(func() { s.keepControlPlane(ctx) })
	s.sidecars, err = component.NewSidecars(component.SidecarOptions{
		Agent: s.options.Programs.Agent, Capture: s.options.Programs.Capture, Envoy: s.options.Programs.Envoy,
		CADir: authority, Domain: domain, CaptureDNS: true,
	})
	if err != nil {
		return err
	}
	s.progress.add(fmt.Sprintf("starting %d workloads", len(m.workloads)))
	s.reconcile(ctx, m)
	return nil
}

// awaitWorkloads closes s.settled when each of the first workloads has been ready or has failed. It
// does not if ctx ends first.
func (s *Supervisor) awaitWorkloads(ctx context.Context) {
	s.mu.Lock()
	workloads := slices.Collect(maps.Values(s.workloads))
	s.mu.Unlock()
	for _, w := range workloads {
		select {
		case <-w.announced:
		case <-ctx.Done():
			return
		}
	}
	close(s.settled)
}

// writeFiles writes the user's files for the control plane, and assigns addresses to new Services.
// Files that are no longer there are removed.
func (s *Supervisor) writeFiles(m *manifests) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := m.renderFiles(s.services)
	if err != nil {
		return err
	}
	return s.config.replaceUserFiles(files)
}

// keepControlPlane starts the control plane again when it has ended, until ctx is canceled. It
// waits for controlPlaneBackoff before each start.
func (s *Supervisor) keepControlPlane(ctx context.Context) {
	for {
		process := s.plane.Process()
		select {
		case <-ctx.Done():
			return
		case <-process.Done():
		}
		s.log.Error("the control plane has ended, it is started again", "status", process.Status(), "log",
			process.LogPath())
		select {
		case <-ctx.Done():
			return
		case <-time.After(controlPlaneBackoff):
		}
		if err := s.plane.Start(ctx); err != nil {
			s.log.Error("starting the control plane failed", "error", err)
		}
	}
}

// close ends all workloads, then the control plane, and removes the namespaces. It waits for all of
// them, and returns the joined errors.
func (s *Supervisor) close() error {
	s.mu.Lock()
	workloads := slices.Collect(maps.Values(s.workloads))
	s.mu.Unlock()
	for _, w := range workloads {
		w.cancel()
	}
	for _, w := range workloads {
		<-w.ended
	}
	s.background.Wait()
	var errs []error
	if s.plane != nil {
		errs = append(errs, s.plane.Stop())
	}
	return errors.Join(append(errs, s.network.Close())...)
}

// assignWorkloadAddress returns the address of a workload by its full name, and assigns the next
// free one at the first call. It returns an error if the range is exhausted. It locks s.mu.
func (s *Supervisor) assignWorkloadAddress(name string) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses.assign(name)
}

// addrList returns a list with one address.
func addrList(addr netip.Addr) []netip.Addr { return []netip.Addr{addr} }

// controlPlaneHosts returns the hosts that every node knows.
func controlPlaneHosts() map[string]netip.Addr {
	return map[string]netip.Addr{component.ControlPlaneHost: controlPlaneAddr}
}

// progressLog records lines of progress for clients that wait for the mesh. The zero value is
// empty.
type progressLog struct {
	mu      sync.Mutex
	lines   []string
	changed notify.Broadcast // notified after each line
}

// add appends a line. It wakes readers that wait for a change.
func (p *progressLog) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	p.changed.Notify()
}

// since returns the lines after the first n, and a channel that is closed when there are more.
func (p *progressLog) since(n int) ([]string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[n:]), p.changed.Changed()
}
