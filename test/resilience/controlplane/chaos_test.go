package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/resilience/controlplane/history"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// editInterval is the time between two operations, faultInterval the time between the end of a
	// fault and the next fault.
	editInterval, faultInterval = 50 * time.Millisecond, 700 * time.Millisecond
	// pausedFor is how long a replica is paused, awayFor the time until a killed one is restarted.
	pausedFor, awayFor = 2 * time.Second, 500 * time.Millisecond
	// inPiecesFor is how long a file is written only in part: less than the 500 ms for which the
	// control plane keeps objects that are missing from a file being rewritten, so it may remove
	// nothing. withoutRuleFor is longer, so it must remove them.
	inPiecesFor, withoutRuleFor = 200 * time.Millisecond, 1500 * time.Millisecond
)

// chaos runs replicas of a control plane with one directory of config files, and injects faults
// into them.
type chaos struct {
	t     *testing.T
	plane target.Plane
	// kubeconfig is for another control plane that does not start without an API server.
	kubeconfig string
	log        *history.Log
	config     string
	replicas   []*replica
	hosts      []*host
	random     *rand.Rand
	faults     map[string]int
	// mixedAt is the time of the real Envoy's first mixed state; nil if there is none.
	mixedAt atomic.Pointer[time.Time]
}

// replica is one process of the control plane, with its own addresses.
type replica struct {
	settings target.Settings
	process  *target.Process
	log      *os.File
}

// host is a host of the mesh. Each of its two objects has a generation: "rule" is a subset with the
// route that names it, written in one file, "endpoints" is the address of its endpoint.
type host struct {
	index           int
	rule, endpoints int
}

// text returns the objects of the host. The generations are in the names of subsets and in the
// address.
func (h *host) text() string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: host-%[1]d, namespace: default}
spec:
  hosts: [host-%[1]d.mesh]
  ports: [{name: http, number: 80, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: %[3]s}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: host-%[1]d, namespace: default}
spec: {host: host-%[1]d.mesh, subsets: [{name: g%[2]d}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: host-%[1]d, namespace: default}
spec: {hosts: [host-%[1]d.mesh], http: [{route: [{destination: {host: host-%[1]d.mesh, subset: g%[2]d}}]}]}
`, h.index, h.rule, addressOf(h.endpoints))
}

func newChaos(t *testing.T, log *history.Log, hosts int) *chaos {
	t.Helper()
	dir := t.TempDir()
	c := &chaos{
		t: t, log: log, config: filepath.Join(dir, "config"), random: rand.New(rand.NewPCG(1, 2)), faults: map[string]int{},
	}
	c.plane, c.kubeconfig = controlPlane(t)
	if err := os.Mkdir(c.config, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range hosts {
		h := &host{index: i}
		c.hosts = append(c.hosts, h)
		c.edit(h, &h.rule, "rule")
		c.edit(h, &h.endpoints, "endpoints")
	}
	for i := range 2 {
		c.addReplica(filepath.Join(dir, fmt.Sprint("replica-", i)))
	}
	return c
}

func (c *chaos) addReplica(dir string) {
	c.t.Helper()
	ports := serving.FreePorts(c.t, 3)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	r := &replica{settings: target.Settings{
		Dir: dir, ConfigDir: c.config, XDS: at(0), HTTP: at(1), Monitoring: at(2), Kubeconfig: c.kubeconfig,
	}}
	if err := os.Mkdir(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	var err error
	if r.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		c.t.Fatal(err)
	}
	c.replicas = append(c.replicas, r)
	c.t.Cleanup(func() {
		if r.process != nil {
			r.process.Stop(syscall.SIGTERM)
		}
		r.log.Close()
		if c.t.Failed() {
			text, _ := os.ReadFile(r.log.Name())
			c.t.Logf("the end of the log of %s:\n%s", filepath.Base(dir), text[max(0, len(text)-3000):])
			c.t.Logf("%s at the real Envoy's first mixed state:\n%s", filepath.Base(dir), c.linesOfMixedState(string(text)))
		}
	})
	c.start(r)
}

// linesOfMixedState returns the lines of a replica's log about the real Envoy in the three seconds
// before its first mixed state and one after it, without versions; "" if there was none.
func (c *chaos) linesOfMixedState(log string) string {
	at := c.mixedAt.Load()
	if at == nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(log) {
		stamp, rest, _ := strings.Cut(line, "\t")
		logged, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || logged.Before(at.Add(-3*time.Second)) || logged.After(at.Add(time.Second)) {
			continue
		}
		if strings.Contains(rest, "sidecar.default") || !strings.Contains(rest, "\tads\t") {
			text, _, _ := strings.Cut(rest, "nonce=")
			fmt.Fprintf(&b, "%s %s\n", logged.Format("15:04:05.000"), strings.TrimSpace(text))
		}
	}
	return b.String()
}

func (c *chaos) start(r *replica) {
	c.t.Helper()
	process, err := c.plane.Start(c.t.Context(), r.settings, r.log)
	if err != nil {
		c.t.Fatal(err)
	}
	r.process = process
}

// edit increments a generation of a host, writes its file and records the operation.
func (c *chaos) edit(h *host, generation *int, kind string) {
	c.t.Helper()
	*generation++
	path := filepath.Join(c.config, fmt.Sprintf("host-%d.yaml", h.index))
	staged := filepath.Join(filepath.Dir(c.config), "staged.yaml")
	err := os.WriteFile(staged, []byte(h.text()), 0o644)
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	object := fmt.Sprintf("%s of host-%d", kind, h.index)
	c.log.Operate(history.Operation{Object: object, Generation: *generation, At: time.Now()})
}

// play makes operations at a steady rate, and meanwhile one fault after the other.
func (c *chaos) play(t *testing.T, length time.Duration) {
	t.Helper()
	end := time.After(length)
	edits := time.NewTicker(editInterval)
	defer edits.Stop()
	faults := c.allFaults()
	var recovery func()
	next := time.After(faultInterval)
	for n := 0; ; {
		select {
		case <-t.Context().Done():
			return
		case <-end:
			if recovery != nil {
				recovery()
			}
			return
		case <-edits.C:
			h := c.hosts[c.random.IntN(len(c.hosts))]
			if c.random.IntN(2) == 0 {
				c.edit(h, &h.rule, "rule")
			} else {
				c.edit(h, &h.endpoints, "endpoints")
			}
		case <-next:
			if recovery != nil { // the fault ends, and all is well for a while
				recovery()
				recovery, next = nil, time.After(faultInterval)
				continue
			}
			f := faults[n%len(faults)]
			recovery = f.begin(c.replicas[n/len(faults)%len(c.replicas)])
			c.faults[f.name]++
			n, next = n+1, time.After(f.lasts)
		}
	}
}

// fault is something that happens to a replica. begin returns what ends it.
type fault struct {
	name  string
	lasts time.Duration
	begin func(r *replica) (recovery func())
}

func (c *chaos) allFaults() []fault {
	signal := func(r *replica, s syscall.Signal) {
		if err := syscall.Kill(r.process.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
			c.t.Error(err)
		}
	}
	list := []fault{
		{"kill -9", awayFor, func(r *replica) func() {
			r.process.Stop(syscall.SIGKILL)
			return func() { c.start(r) }
		}},
		{"pause", pausedFor, func(r *replica) func() {
			signal(r, syscall.SIGSTOP)
			return func() { signal(r, syscall.SIGCONT) }
		}},
		{"SIGTERM", awayFor, func(r *replica) func() {
			r.process.Stop(syscall.SIGTERM)
			return func() { c.start(r) }
		}},
	}
	if scorecard.Peer() == "" { // istiod drops the objects of a file that it cannot parse
		half := func(text string) int { return len(text) / 2 }
		service := func(text string) int { return strings.Index(text, "---") }
		list = append(list,
			fault{"file in pieces", inPiecesFor, func(*replica) func() { return c.cutFile(half) }},
			fault{"rule missing", withoutRuleFor, func(*replica) func() { return c.cutFile(service) }})
	}
	return list
}

// cutFile writes only the beginning of a host's file, in place, and returns what completes it.
func (c *chaos) cutFile(at func(text string) int) (complete func()) {
	h := c.hosts[c.random.IntN(len(c.hosts))]
	path := filepath.Join(c.config, fmt.Sprintf("host-%d.yaml", h.index))
	text := h.text()
	if err := os.WriteFile(path, []byte(text[:at(text)]), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return func() { c.edit(h, &h.rule, "rule") }
}

// faultCounts returns how often each fault happened, "" for one that did not.
func (c *chaos) faultCounts() []string {
	var list []string
	for _, f := range c.allFaults() {
		text := ""
		if n := c.faults[f.name]; n > 0 {
			text = fmt.Sprintf("%d %s", n, f.name)
		}
		list = append(list, text)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
