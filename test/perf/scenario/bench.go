package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/test/perf/feed"
	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// bench is a group being run.
type bench struct {
	Options
	ctx   context.Context
	group Group
	mesh  *workload.Mesh
	feed  feed.Feed
	fleet *fleet.Fleet
	// proxies is how many take part. The fleet has some more, the spares, which are of the same
	// nodes as the first ones.
	proxies  int
	settings target.Settings
	process  *target.Process
	// others are the control planes beside process, if the group has several.
	others []*replica
	log    *os.File
	out    *report.Run

	marks  int
	turns  map[workload.Change]int
	latest map[string]*fleet.Change // by target
	// lastMark is the mark of the last change.
	lastMark workload.Mark
	added    []int        // marks of services that were added and not removed
	exclude  map[int]bool // proxies that are not waited for
}

// spares is how many proxies at the end look whether a newcomer is sent the same.
const spares = 3

// Run runs a group with a process of its own. Failures are recorded in the result; the error is for
// what makes it void.
func Run(ctx context.Context, o Options, g Group) (*report.Run, error) {
	b := &bench{
		Options: o,
		ctx:     ctx,
		group:   g,
		proxies: g.Proxies,
		turns:   map[workload.Change]int{},
		latest:  map[string]*fleet.Change{},
	}
	if o.Proxies > 0 {
		b.proxies = o.Proxies
	}
	if o.Seed > 0 {
		b.group.Mesh.Seed = o.Seed
	}
	b.group.Mesh.FilePerObject = o.FilePerObject
	b.out = &report.Run{
		Group:     g.Name,
		Plane:     filepath.Base(o.Plane.Kind),
		Date:      time.Now().UTC().Format(time.RFC3339),
		Machine:   thisMachine(),
		Mesh:      b.group.Mesh,
		Proxies:   b.proxies,
		Protocol:  "sotw",
		Transport: "plain",
		Source:    o.Source,
	}
	if o.Delta {
		b.out.Protocol = "delta"
	}
	if o.TLS {
		b.out.Transport = "tls"
	}
	defer b.closeAll()
	if err := b.prepareRun(); err != nil {
		return nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	for _, s := range g.Scenarios {
		if len(o.Only) > 0 && s.Number != 1 && !slices.Contains(o.Only, s.Name) {
			continue
		}
		if err := b.runScenario(s); err != nil {
			return b.out, err
		}
	}
	b.endRun()
	return b.out, nil
}

// prepareRun makes the mesh, the fleet and the process.
func (b *bench) prepareRun() error {
	dir := filepath.Join(b.Dir, strings.ReplaceAll(b.group.Name, "/", "-"))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var err error
	if b.mesh, err = workload.New(b.group.Mesh); err != nil {
		return err
	}
	source, err := b.chooseAddresses(dir)
	if err != nil {
		return err
	}
	if b.Source == FileSource {
		b.settings.ConfigDir = filepath.Join(dir, "config")
		b.feed, err = feed.NewFile(b.mesh, b.settings.ConfigDir)
	} else {
		b.settings.ConfigSource = "xds://" + source
		if b.Source == XDSDeltaSource {
			b.settings.ConfigSource += "?mode=delta"
		}
		b.feed, err = feed.NewXDS(b.mesh, source)
	}
	if err != nil {
		return err
	}
	if b.log, err = os.Create(filepath.Join(dir, "control-plane.log")); err != nil {
		return err
	}
	if b.process, err = b.Plane.Start(b.ctx, b.settings, b.log); err != nil {
		return fmt.Errorf("%w; the end of its output:\n%s", err, b.lastOutput())
	}
	if err := b.startOthers(); err != nil {
		return err
	}
	b.out.StartMS, b.out.StartCPU = milliseconds(b.process.Started), b.process.StartCPU.Seconds()
	return b.newFleet()
}

// lastOutput returns the last 4 KiB of the control plane's output. The file may be removed with the
// directory of the test.
func (b *bench) lastOutput() string {
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4<<10):])
}

// choosePorts returns addresses at five ports. With BasePort they are those of the i-th control
// plane.
func (b *bench) choosePorts(i int) ([]string, error) {
	ports := make([]int, 5)
	for k := range ports {
		ports[k] = b.BasePort + len(ports)*i + k
	}
	if b.BasePort == 0 {
		var err error
		if ports, err = serving.ReservePorts(len(ports)); err != nil {
			return nil, err
		}
	}
	list := make([]string, len(ports))
	for k, port := range ports {
		list[k] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return list, nil
}

func (b *bench) chooseAddresses(dir string) (source string, err error) {
	addresses, err := b.choosePorts(0)
	if err != nil {
		return "", err
	}
	b.settings = target.Settings{
		Dir:         dir,
		XDS:         addresses[0],
		SecureXDS:   addresses[1],
		HTTP:        addresses[2],
		Monitoring:  addresses[3],
		Kubeconfig:  b.Kubeconfig,
		Environment: b.Environment,
	}
	if b.TLS {
		b.settings.Keys, err = target.NewKeys(dir)
	}
	return addresses[4], err
}

func (b *bench) newFleet() error {
	nodes, err := b.mesh.Nodes(b.proxies)
	if err != nil {
		return err
	}
	nodes = append(nodes, nodes[:min(spares, len(nodes))]...)
	const checked = 100
	o := fleet.Options{Delta: b.Delta, Check: checked}
	for _, s := range b.allSettings() {
		if b.TLS {
			o.Addresses = append(o.Addresses, s.SecureXDS)
		} else {
			o.Addresses = append(o.Addresses, s.XDS)
		}
	}
	if len(o.Addresses) > 1 {
		o.MaxBackoff = envoyMaxBackoff
	}
	if b.TLS {
		o.TLS = func(n workload.Node) (credentials.TransportCredentials, error) { return b.settings.Keys.Credentials(n) }
	}
	b.fleet, err = fleet.New(o, nodes)
	return err
}

// runScenario runs one scenario.
func (b *bench) runScenario(s Scenario) error {
	fmt.Fprintf(b.Progress, "%s %s %s\n", time.Now().Format(time.TimeOnly), b.group.Name, s.Name)
	row := report.Row{Scenario: s.Name, Number: s.Number, Events: 1, Proxies: b.proxies, Values: map[string]float64{}}
	b.process.ResetPeak()
	if err := s.run(b, &row); err != nil {
		row.Errors = append(row.Errors, err.Error())
	}
	row.PeakRSS = b.process.Peak()
	b.out.Rows = append(b.out.Rows, row)
	switch {
	case b.ctx.Err() != nil:
		return b.ctx.Err()
	case !b.process.Alive():
		return fmt.Errorf("%s: the control plane ended during %q; the end of its output:\n%s",
			b.group.Name, s.Name, b.lastOutput())
	}
	return nil
}

// endRun takes down what concerns the whole run.
func (b *bench) endRun() {
	for reason, n := range b.fleet.StreamEndReasons() {
		b.out.Endings = append(b.out.Endings, fmt.Sprintf("%d times %s", n, reason))
	}
	slices.Sort(b.out.Endings)
	for _, fault := range b.fleet.InvalidResources() {
		b.out.Errors = append(b.out.Errors, "a resource that no proxy would take: "+fault)
	}
}

func (b *bench) closeAll() {
	if b.fleet != nil {
		b.fleet.Close()
	}
	if b.process != nil {
		b.process.Stop(syscall.SIGTERM)
	}
	for _, r := range b.others {
		r.process.Stop(syscall.SIGTERM)
	}
	if b.feed != nil {
		b.feed.Close()
	}
	if b.log != nil {
		b.log.Close()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
