package differential

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/compare"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

const (
	patience = 2 * time.Minute
	// idle is how long a resource that a control plane does not send is waited for.
	idle = 20 * time.Second
	// leastFacts is how many facts are compared at least: fewer prove nothing.
	leastFacts = 100
)

// TestSameAsIstiod compares what both control planes send, fact by fact.
func TestSameAsIstiod(t *testing.T) {
	check := scorecard.Check(t, 19, scorecard.Size("proxies", len(proxies())), scorecard.Size("objects", objects(t)))
	scorecard.Heavy(t) // it builds istiod
	kubeconfig := cluster.Start(t, cluster.Options{IstioKinds: true}).Kubeconfig()
	ours := serve(t, target.Plane{Kind: target.Meshpilot, Binary: ourProgram(t)}, "")
	theirs := serve(t, target.Plane{Kind: target.Istiod, Binary: istiod(t)}, kubeconfig)
	compared, unlisted := 0, 0
	occurred := map[string]int{}
	for name, node := range proxies() {
		a, b := facts(t, theirs, node), facts(t, ours, node)
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		compared += len(keys)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if a[key] == b[key] {
				continue
			}
			if d := listed(key); d != "" {
				occurred[d]++
				continue
			}
			unlisted++
			t.Errorf("%s, %s\n  istiod: %s\n  here:   %s", name, key, a[key], b[key])
		}
	}
	check.Measured("facts compared", compared)
	check.Measured("listed differences", sum(occurred))
	check.Measured("unlisted differences", unlisted)
	if compared < leastFacts {
		t.Errorf("only %d facts were compared", compared)
	}
	for _, d := range differences() {
		if occurred[d.reason] == 0 {
			t.Errorf("a listed difference does not occur: %s", d.reason)
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// proxies are the nodes that both control planes serve.
func proxies() map[string]*corev3.Node {
	metadata := func(labels map[string]any) map[string]any {
		return map[string]any{
			"NAMESPACE": "default", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0", "LABELS": labels, "INSTANCE_IPS": "10.9.0.1",
		}
	}
	gateway := sidecar.Node("gateway", "default", "10.9.0.3", metadata(map[string]any{"app": "gateway"}))
	gateway.Id = "router" + strings.TrimPrefix(gateway.Id, "sidecar")
	return map[string]*corev3.Node{
		"sidecar": sidecar.Node("plain", "default", "10.9.0.1", metadata(map[string]any{"app": "plain"})),
		"scoped":  sidecar.Node("scoped", "default", "10.9.0.2", metadata(map[string]any{"app": "scoped"})),
		"gateway": gateway,
	}
}

// serve starts a control plane on the corpus and returns the address of its xDS port.
func serve(t *testing.T, plane target.Plane, kubeconfig string) string {
	t.Helper()
	dir := t.TempDir()
	ports := serving.FreePorts(t, 3)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	corpus, err := filepath.Abs("testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plane.Start(t.Context(), target.Settings{
		Dir: dir, ConfigDir: corpus, XDS: at(0), HTTP: at(1), Monitoring: at(2), Kubeconfig: kubeconfig,
		Environment: []string{"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false"},
	}, log)
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text[max(0, len(text)-3000):])
	}
	t.Cleanup(func() { p.Stop(syscall.SIGTERM); log.Close() })
	serving.Eventually(t, patience, plane.Kind+" is ready", func() error {
		_, err := serving.Page("http://" + at(1) + "/ready")
		return err
	})
	return at(0)
}

// facts connects in place of a proxy, and returns what its configuration means.
func facts(t *testing.T, address string, node *corev3.Node) map[string]string {
	t.Helper()
	r, err := compare.Fetch(t.Context(), address, node, idle)
	if err != nil {
		t.Fatal(err)
	}
	return compare.Facts(r)
}

func ourProgram(t *testing.T) string {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// istiod builds the version of istiod that `make compat` pins; once, up to 5 minutes.
func istiod(t *testing.T) string {
	t.Helper()
	binary, err := program.BuildIstio(t.Context(), "istiod", func() { t.Log("building istiod: once, up to 5 minutes") })
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// objects counts the documents of the corpus.
func objects(t *testing.T) (n int) {
	t.Helper()
	err := filepath.WalkDir("testdata/corpus", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		n += strings.Count("\n"+string(text), "\nkind: ")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
