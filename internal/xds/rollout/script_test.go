package rollout_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

var update = flag.Bool("update", false, "rewrite the actions in testdata/*.txt")

// TestScripts plays the event sequences in testdata, in a mesh of the services s0 to s2. The
// language:
//
//	> connect NAME NAMESPACE [anonymous]  a proxy "pN" connects and subscribes to the route "80"
//	> close NAME                          it disconnects
//	> subscribe NAME TYPE RESOURCE…
//	> ack NAME…                           they acknowledge everything that they were offered
//	> refuse NAME TYPE RESOURCE           it refuses a resource that it was offered
//	> endpoints SERVICE NAME|ADDRESS…     a proxy's name is its address
//	> mtls SERVICE NAME                   its endpoint accepts mutual TLS
//	> service NAME, > remove NAME         a service is added or removed
//	> routes                              a VirtualService changes
//	> peers MODE                          the mutual TLS mode of namespace default
//	> sidecar N                           proxy pN gets a Sidecar of its own
//	> filter NAME [protects]              an EnvoyFilter for listeners
//	> workload NAME ADDRESS               a workload that may be connected to another control plane
//	> wait DURATION
//	> verbose                             show which types are generated
//	> manual, > generate                  generators run only on request; they run
//	> fail TYPE, > mend                   generators of the type panic; none does
//	< …                                   an action
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want), nil)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("the actions differ (-want +got):\n%s", d)
			}
		})
	}
}

// TestScriptsInAnyOrder plays the same sequences while generators finish one after another in
// random order. Each command must have the same actions.
func TestScriptsInAnyOrder(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(longtest.Rounds(20, 500)) {
				got := play(t, string(want), rand.New(rand.NewPCG(seed, 3)))
				if d := cmp.Diff(actionsByCommand(string(want)), actionsByCommand(got)); d != "" {
					t.Fatalf("seed %d: the actions differ (-want +got):\n%s", seed, d)
				}
			}
		})
	}
}

// actionsByCommand returns the commands of a script, each followed by its actions in sorted order.
func actionsByCommand(text string) (list []string) {
	var actions []string
	flush := func() {
		list = append(list, slices.Sorted(slices.Values(actions))...)
		actions = nil
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "< ") {
			actions = append(actions, line)
			continue
		}
		flush()
		list = append(list, line)
	}
	flush()
	return list
}

// play executes a script. If order is set, generators finish in random order.
func play(t *testing.T, text string, order *rand.Rand) string {
	t.Helper()
	h := newHarness(t, 3, rollout.Options{MaxJobs: 100})
	h.order = order
	h.lines = nil
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "<") {
			continue
		}
		fmt.Fprintln(&out, line)
		if command, ok := strings.CutPrefix(line, "> "); ok {
			h.play(strings.Fields(command))
			for _, l := range h.lines {
				fmt.Fprintln(&out, "<", l)
			}
			h.lines = nil
		}
	}
	return out.String()
}

// play executes one command, and lets changes begin their turn.
func (h *harness) play(words []string) {
	args := words[1:]
	if h.playClient(words[0], args) {
		return
	}
	switch words[0] {
	case "endpoints":
		h.mesh.SetEndpoints(args[0], addresses(args[1:])...)
	case "mtls":
		h.mesh.SetMutualTLS(args[0], addresses(args[1:])...)
	case "service":
		h.mesh.AddService(args[0])
	case "remove":
		h.mesh.RemoveService(args[0])
	case "routes":
		h.mesh.EditRoutes()
	case "peers":
		h.mesh.SetPeers(
			security.PeerAuthentication_MutualTLS_Mode(security.PeerAuthentication_MutualTLS_Mode_value[args[0]]),
		)
	case "sidecar":
		h.mesh.SetSidecar(map[string]string{"i": args[0]})
	case "filter":
		h.mesh.SetEnvoyFilter(pushtest.EnvoyFilter{Name: args[0], Edit: len(h.lines), Protects: len(args) > 1})
	case "workload":
		h.mesh.SetWorkload(args[0], args[1])
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			h.t.Fatal(err)
		}
		h.wait(d)
		return
	case "verbose":
		h.verbose = true
		return
	case "manual":
		h.manual = true
		return
	case "generate":
		events := h.generate()
		if h.order == nil {
			h.step(events...)
			return
		}
		for _, i := range h.order.Perm(len(events)) {
			h.step(events[i])
		}
		return
	case "fail":
		h.failing[args[0]] = true
		return
	case "mend":
		clear(h.failing)
		return
	default:
		h.t.Fatalf("unknown command %q", words[0])
	}
	h.wait(5 * time.Millisecond)
}

// playClient executes a command of a proxy. It returns false if there is no such command.
func (h *harness) playClient(command string, args []string) bool {
	switch command {
	case "connect":
		c := h.connect(args[0], args[1], len(args) > 2)
		h.subscribe(c, api.RouteType, "80")
	case "close":
		h.disconnect(h.client(args[0]))
	case "subscribe":
		h.subscribe(h.client(args[0]), typeURL(args[1]), args[2:]...)
	case "ack":
		for _, name := range args {
			h.acknowledge(h.client(name))
		}
	case "refuse":
		h.refuse(h.client(args[0]), typeURL(args[1]), args[2])
	default:
		return false
	}
	return true
}

func typeURL(short string) string {
	for _, t := range types() {
		if api.ShortType(t) == short {
			return t
		}
	}
	return short
}

// addresses replaces names of proxies by their addresses.
func addresses(words []string) (list []string) {
	for _, w := range words {
		var i int
		if n, _ := fmt.Sscanf(w, "p%d", &i); n == 1 {
			w = pushtest.Proxy(i, "default").Addresses[0].String()
		}
		list = append(list, w)
	}
	return list
}
