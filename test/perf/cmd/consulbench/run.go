package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// run starts everything, measures, and prints a table.
func (o options) run(ctx context.Context) error {
	dir, err := os.MkdirTemp(o.dir, "consulbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	c, err := startCatalog(ctx, o, dir)
	defer c.stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "registered %d instances in %v\n",
		o.services*o.instances, time.Since(began).Round(time.Millisecond))
	p, err := startPlane(ctx, o, c.url, dir)
	defer p.stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the control plane is ready after %v, with %v of CPU time\n",
		p.ready.Round(time.Millisecond), target.CPUOf(p.process.Process.Pid).Round(time.Millisecond))
	m, err := o.measurePlane(ctx, c, p, dir)
	if err != nil {
		return err
	}
	p.stop()
	m.print()
	if o.poll > 0 {
		if err := o.comparePolling(ctx, c, m, dir); err != nil {
			return err
		}
	}
	last := m.latencies
	if o.envoy != "" {
		last = m.inEnvoy
	}
	if p99 := percentile(last, 99); o.goal > 0 && p99 > o.goal {
		return fmt.Errorf("the 99th percentile is %v, more than %v", p99, o.goal)
	}
	return nil
}

// print prints the table of the control plane, and the latencies in Envoy if they were measured.
func (m measurement) print() {
	fmt.Println("| | changes | queries a change | EDS resources a change | accepted by Consul after, median | p99 " +
		"| received after, median | p99 | at most | of which after the acceptance, p99 | CPU of the reader | CPU of Consul |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|")
	fmt.Printf("| meshpilot | %d | %.2f | %.2f | %v | %v | %v | %v | %v | %v | %.2f %% | %.1f %% |\n",
		m.changes, m.perChange(m.queries), m.perChange(m.resources), percentile(m.accepted, 50), percentile(m.accepted, 99),
		percentile(m.latencies, 50), percentile(m.latencies, 99), percentile(m.latencies, 100),
		percentile(m.added, 99), m.share(m.cpu), m.share(m.consulCPU))
	if len(m.inEnvoy) > 0 {
		fmt.Printf("\nIn use by Envoy, of %d changes: median %v, p99 %v, at most %v\n",
			len(m.inEnvoy), percentile(m.inEnvoy, 50), percentile(m.inEnvoy, 99), percentile(m.inEnvoy, 100))
	}
}

// comparePolling measures the polling program with the same changes, and prints a line of the table.
func (o options) comparePolling(ctx context.Context, c *catalog, m measurement, dir string) error {
	x, err := o.measurePolling(ctx, c, dir)
	if err != nil {
		return err
	}
	fmt.Printf("| polling every %v | %d | %.1f | | | | | | | | %.2f %% | %.1f %% |\n",
		o.poll, x.changes, x.perChange(x.queries), x.share(x.cpu), x.share(x.consulCPU))
	fmt.Printf("\nCPU of the reader: 1 : %.1f\n", x.cpu.Seconds()/m.cpu.Seconds())
	return nil
}

// settleTime is the pause before a measurement.
const settleTime = 5 * time.Second

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// measurement is the result of a phase.
type measurement struct {
	changes, queries, resources int
	elapsed, cpu, consulCPU     time.Duration
	// accepted are the times until Consul had answered a change, latencies those until a client of the
	// control plane had received it.
	accepted, latencies []time.Duration
	// added are the times between both; 0 for changes that were received first.
	added []time.Duration
	// inEnvoy are the times until Envoy used a change; none without an Envoy.
	inEnvoy []time.Duration
}

func (m measurement) perChange(n int) float64 { return float64(n) / float64(max(m.changes, 1)) }

// share returns a CPU time as percent of one core.
func (m measurement) share(cpu time.Duration) float64 {
	return 100 * cpu.Seconds() / m.elapsed.Seconds()
}

// percentile returns a percentile, rounded to a tenth of a millisecond.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)*p/100, len(list)-1)].Round(100 * time.Microsecond)
}

// plane is a running pilot-discovery.
type plane struct {
	process         *exec.Cmd
	xds, monitoring string
	ready           time.Duration
}

func startPlane(ctx context.Context, o options, url, dir string) (*plane, error) {
	ports, err := serving.ReservePorts(3)
	if err != nil {
		return nil, err
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	log, err := os.Create(filepath.Join(dir, "pilot-discovery.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &plane{xds: at(0), monitoring: at(2)}
	p.process = exec.Command(o.plane, "discovery", "--registries", "Consul", "--consulserverURL", url,
		"--consulQueries", strconv.Itoa(cmp.Or(o.queries, o.services+8)),
		"--meshConfig", filepath.Join(dir, "none"), "--networksConfig", filepath.Join(dir, "none"),
		"--grpcAddr", at(0), "--httpAddr", at(1), "--monitoringAddr", at(2), "--httpsAddr=", "--secureGRPCAddr=")
	p.process.Env = append(os.Environ(), "POD_NAMESPACE=istio-system", "POD_NAME=bench", "KUBECONFIG=")
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.plane, err)
	}
	err = await(ctx, "the control plane to be ready", func() error {
		_, err := get("http://" + at(1) + "/ready")
		return err
	})
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		err = fmt.Errorf("%w; its log: %s", err, text[max(0, len(text)-2000):])
	}
	p.ready = time.Since(began)
	return p, err
}

func (p *plane) stop() {
	if p == nil || p.process == nil || p.process.Process == nil || p.process.ProcessState != nil {
		return
	}
	_ = p.process.Process.Kill() // it may have ended
	_ = p.process.Wait()
}

// queries returns the number of queries of Consul that the control plane has begun.
func (p *plane) queries() (int, error) {
	text, err := get("http://" + p.monitoring + "/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, "meshpilot_consul_queries_total "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int(n), err
		}
	}
	return 0, errors.Join(errors.New("the metric of queries is missing"), err)
}

func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

// measurePlane connects a client and, if there is one, an Envoy, and changes health.
func (o options) measurePlane(ctx context.Context, c *catalog, p *plane, dir string) (m measurement, err error) {
	x, err := connect(ctx, p.xds)
	if err != nil {
		return m, err
	}
	defer x.close()
	if err := x.awaitEndpoints(ctx, o.services*o.instances); err != nil {
		return m, err
	}
	var envoy *proxy
	if o.envoy != "" {
		envoy, err = startProxy(ctx, o, p.xds, dir)
		defer envoy.stop()
		if err != nil {
			return m, err
		}
	}
	pause(ctx, settleTime) // the work after the start is not measured
	before, err := p.queries()
	if err != nil {
		return m, err
	}
	_, _, received := x.counts()
	began, cpu, consulCPU := time.Now(), target.CPUOf(p.process.Process.Pid), target.CPUOf(c.process.Process.Pid)
	expect := func(h change) bool {
		a := address(h.service, h.instance)
		if envoy != nil && envoy.isPending(a) || !x.expect(a, !h.critical) {
			return false
		}
		if envoy != nil {
			envoy.follow(ctx, h)
		}
		return true
	}
	if m.changes, err = o.changeHealth(ctx, c, expect, x.recordAccepted); err != nil {
		return m, err
	}
	if err := await(ctx, "the last changes", func() error {
		if _, waiting, _ := x.counts(); waiting > 0 {
			return fmt.Errorf("%d have not arrived", waiting)
		}
		return nil
	}); err != nil {
		return m, err
	}
	if envoy != nil {
		if m.inEnvoy, err = envoy.awaitChanges(ctx); err != nil {
			return m, err
		}
	}
	m.elapsed = time.Since(began)
	m.cpu, m.consulCPU = target.CPUOf(p.process.Process.Pid)-cpu, target.CPUOf(c.process.Process.Pid)-consulCPU
	after, err := p.queries()
	_, _, now := x.counts()
	m.queries, m.resources, m.accepted = after-before, now-received, c.takeAccepted()
	m.latencies, m.added = x.takeLatencies()
	return m, err
}

// measurePolling changes health while the polling program runs.
func (o options) measurePolling(ctx context.Context, c *catalog, dir string) (m measurement, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	log, err := os.Create(filepath.Join(dir, "poll.log"))
	if err != nil {
		return m, err
	}
	defer log.Close()
	cmd := exec.Command(self, "poll", "--url", c.url, "--interval", o.poll.String())
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return m, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pause(ctx, settleTime) // the first rounds are not measured
	rounds := func() int { text, _ := os.ReadFile(log.Name()); return strings.Count(string(text), "round ") }
	began, first := time.Now(), rounds()
	cpu, consulCPU := target.CPUOf(cmd.Process.Pid), target.CPUOf(c.process.Process.Pid)
	m.changes, err = o.changeHealth(ctx, c, func(change) bool { return true }, func(string) {})
	m.elapsed = time.Since(began)
	m.cpu, m.consulCPU = target.CPUOf(cmd.Process.Pid)-cpu, target.CPUOf(c.process.Process.Pid)-consulCPU
	m.queries = (rounds() - first) * (1 + o.services)
	return m, err
}

// changeHealth changes the health of random instances at the rate of o. expect is called before each
// change; if it returns false, another instance is chosen. accepted is called when Consul has
// answered.
func (o options) changeHealth(
	ctx context.Context, c *catalog, expect func(change) bool, accepted func(address string),
) (int, error) {
	random := rand.New(rand.NewPCG(1, 2))
	failed := make(chan error, 1)
	tick := time.NewTicker(time.Duration(float64(time.Second) / o.rate))
	defer tick.Stop()
	n := 0
	for end := time.Now().Add(o.duration); time.Now().Before(end); n++ {
		x := c.next(random)
		for !expect(x) {
			c.critical[x.service][x.instance] = !x.critical
			x = c.next(random)
		}
		go func() {
			err := c.apply(x)
			if err == nil {
				accepted(address(x.service, x.instance))
				return
			}
			select {
			case failed <- err:
			default:
			}
		}()
		select {
		case <-tick.C:
		case err := <-failed:
			return n, err
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}
