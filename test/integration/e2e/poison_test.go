package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// poisons are EnvoyFilters that pass all validation, and that Envoy rejects. They were written
	// for a sidecar of reviews that calls details and serves on 8080. Here they apply to
	// productpage, which serves on 9080.
	poisons     = "../../../internal/translate/patch/testdata/poison/*.yaml"
	poisoned    = "productpage-v1"
	fewPoisons  = 50
	poisonBase  = "../../../internal/translate/patch/testdata/mesh.yaml"
	healingTime = 5 * time.Second
)

// poison returns one of the files under a name, for one workload only. It is marked as optional:
// most of the files change filters that may protect something, and would otherwise not be
// suspended.
func poison(t *testing.T, path, name string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), "metadata: {name: poison}", "metadata: {name: "+name+", namespace: default, annotations: {meshpilot.io/required: \"false\"}}", 1)
	text = strings.Replace(text, "\nspec:\n", "\nspec:\n  workloadSelector: {labels: {app: productpage}}\n", 1)
	return "apiVersion: networking.istio.io/v1alpha3\n" + strings.ReplaceAll(text, "portNumber: 8080", "portNumber: 9080")
}

// base returns the rules that the poisons match.
func base(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(poisonBase)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for doc := range strings.SplitSeq(string(b), "\n---\n") {
		switch {
		case strings.Contains(doc, "kind: DestinationRule"), strings.Contains(doc, "kind: VirtualService"):
			kept = append(kept, "apiVersion: networking.istio.io/v1\n"+doc)
		case strings.Contains(doc, "name: db"):
			kept = append(kept, "apiVersion: v1\n"+doc)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// refusals returns the entries of nackz, by the object that caused them.
type refusal struct {
	Message     string
	From        []struct{ Kind, Name string }
	Names       []string
	Standing    bool
	Quarantined bool
	Instead     string
}

func refusals(t *testing.T, m *mesh.Mesh) []refusal {
	t.Helper()
	var list []refusal
	debugPage(t, m, "/debug/nackz", &list)
	return list
}

func (r refusal) of(name string) bool {
	return slices.ContainsFunc(r.From, func(f struct{ Kind, Name string }) bool { return f.Kind == "EnvoyFilter" && f.Name == name })
}

// TestPoison: whatever resource an EnvoyFilter makes Envoy reject, requests succeed, other changes
// are applied, and other proxies are not affected. The object is reported with Envoy's error, and
// everything recovers within five seconds of the fix.
func TestPoison(t *testing.T) {
	check := scorecard.Check(t, 20, scorecard.Size("poisons", fewPoisons))
	longtest.Test(t)
	m := bookinfoMesh(t)
	files, err := filepath.Glob(poisons)
	if err != nil || len(files) < fewPoisons {
		t.Fatalf("%d files %s: %v", len(files), poisons, err)
	}
	if err := m.Rules.Apply(base(t)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Rules.Clear(); err != nil {
			t.Error(err)
		}
	}()
	load := mesh.StartLoad(m.Workload("client").Node, mesh.ProductReviews, 50)
	caller := mesh.NewCaller(m.Workload(poisoned).Node)
	defer caller.Close()

	refused, began := 0, time.Now()
	var begins []string // when each poison was applied
	for i, path := range files {
		if refused == fewPoisons {
			break
		}
		name := fmt.Sprint("poison-", i)
		begins = append(begins, fmt.Sprintf("%s after %s", filepath.Base(path), time.Since(began).Round(time.Millisecond)))
		if err := m.Rules.Apply(poison(t, path, name)); err != nil {
			t.Fatal(err)
		}
		goesOn(t, m, caller, i)
		if isRefused(t, m, name) {
			refused++
		}
		heal(t, m, name)
	}
	check.Measured("poisons refused by Envoy, one at a time", refused)
	check.Measured("poisons at once", len(files))
	if refused < fewPoisons {
		t.Errorf("%d poisons were refused, want %d", refused, fewPoisons)
	}

	protectionStays(t, m, caller, len(files))

	var all, names []string
	for i, path := range files {
		name := fmt.Sprint("all-", i)
		all, names = append(all, poison(t, path, name)), append(names, name)
	}
	if err := m.Rules.Apply(strings.Join(all, "\n---\n")); err != nil {
		t.Fatal(err)
	}
	goesOn(t, m, caller, len(files))
	serving.Eventually(t, settleTime, "something of all poisons at once is refused", func() error {
		if !slices.ContainsFunc(refusals(t, m), func(r refusal) bool { return r.Quarantined || r.Standing }) {
			return errors.New("nothing is refused")
		}
		return nil
	})
	heal(t, m, names...)
	if tally := load.Stop(); tally.Sent == 0 || tally.Failed > 0 {
		t.Errorf("meanwhile %d of %d requests failed: %v; poisons: %v; the end of the log of productpage:\n%s",
			tally.Failed, tally.Sent, tally.Failures, begins, m.Workload(poisoned).App.Tail(20))
	}
	for _, r := range refusals(t, m) {
		if slices.ContainsFunc(r.Names, func(n string) bool { return !strings.HasPrefix(n, poisoned) }) {
			t.Errorf("proxies that have nothing to do with it refused something: %v: %s", r.Names, r.Message)
		}
	}
}

// poisonedExtension adds a filter with config_discovery whose configuration Envoy rejects, after the
// listener with the filter. Envoy answers all requests with status 500 while such a filter has no
// valid configuration.
const poisonedExtension = "../../../internal/translate/patch/testdata/poison/extension_type.yaml"

// TestPoisonedExtension loses no request while a dispensable EnvoyFilter adds a filter whose
// configuration is rejected, again and again.
func TestPoisonedExtension(t *testing.T) {
	m := bookinfoMesh(t)
	load := mesh.StartLoad(m.Workload(poisoned).Node, mesh.Reviews, 100) // productpage would try again
	for i := range longtest.Rounds(5, 40) {
		name := fmt.Sprint("extension-", i)
		if err := m.Rules.Apply(poison(t, poisonedExtension, name)); err != nil {
			t.Fatal(err)
		}
		serving.Eventually(t, settleTime, "the extension is refused", func() error {
			if list := refusals(t, m); !slices.ContainsFunc(list, func(r refusal) bool { return r.of(name) }) {
				return fmt.Errorf("refused is %+v", list)
			}
			return nil
		})
		heal(t, m, name)
	}
	if err := m.Rules.Clear(); err != nil {
		t.Error(err)
	}
	if tally := load.Stop(); tally.Sent == 0 || tally.Failed > 0 {
		t.Errorf("%d of %d requests failed: %v", tally.Failed, tally.Sent, tally.Failures)
	}
}

// protector is an authentication filter that Envoy rejects.
const protector = "../../../internal/translate/patch/testdata/poison/http_basic_auth.yaml"

// protectionStays checks that an EnvoyFilter that may protect something is not left out: the proxy
// keeps its last good listener, and other resources are still updated.
func protectionStays(t *testing.T, m *mesh.Mesh, caller *mesh.Caller, i int) {
	t.Helper()
	const name = "protector"
	text := strings.Replace(poison(t, protector, name), `annotations: {meshpilot.io/required: "false"}`, "annotations: {}", 1)
	if err := m.Rules.Apply(text); err != nil {
		t.Fatal(err)
	}
	goesOn(t, m, caller, i)
	serving.Eventually(t, settleTime, "the listener is quarantined", func() error {
		list := refusals(t, m)
		if !slices.ContainsFunc(list, func(r refusal) bool { return r.of(name) && r.Quarantined && r.Instead == "the version before it" }) {
			return fmt.Errorf("refused is %+v", list)
		}
		return nil
	})
	heal(t, m, name)
}

// goesOn shows that another change reaches the poisoned proxy.
func goesOn(t *testing.T, m *mesh.Mesh, caller *mesh.Caller, i int) {
	t.Helper()
	status := 400 + i%50
	if err := m.Rules.Apply(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: goes-on, namespace: default}
spec:
  hosts: [ratings]
  http:
  - match: [{uri: {prefix: /goes-on}}]
    directResponse: {status: %d}
  - route: [{destination: {host: ratings}}]
`, status)); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, settleTime, "another change", func() error {
		if a := caller.Get(t.Context(), "http://ratings:9080/goes-on"); a.Status != status {
			return fmt.Errorf("%s, want %d", a, status)
		}
		return nil
	})
}

// isRefused reports whether the poison was refused: it may match nothing here.
func isRefused(t *testing.T, m *mesh.Mesh, name string) bool {
	t.Helper()
	deadline := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(deadline) {
		for _, r := range refusals(t, m) {
			if r.of(name) {
				if r.Message == "" {
					t.Errorf("%s: the reason is not reported", name)
				}
				return true
			}
		}
		time.Sleep(poll)
	}
	return false
}

// heal takes the poison away, and waits until nothing is refused any more.
func heal(t *testing.T, m *mesh.Mesh, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := m.Rules.Delete("EnvoyFilter", name); err != nil {
			t.Fatal(err)
		}
	}
	mended := time.Now()
	for {
		i := slices.IndexFunc(refusals(t, m), func(r refusal) bool { return r.Standing || r.Quarantined })
		if i < 0 {
			return
		}
		if time.Since(mended) > healingTime {
			t.Fatalf("%v: %v after the fix there is still %+v", names, healingTime, refusals(t, m)[i])
		}
		time.Sleep(poll)
	}
}
