package sidecars

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

// TestSidecars plays all scenes in one mesh. Each scene restores the initial state.
func TestSidecars(t *testing.T) {
	longtest.Test(t)
	w := startWorld(t)
	w.eventually(t, "without plugins", http.StatusOK)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"at the server and at the client", sides},
		{"a module with a wrong checksum", checksums},
		{"modules change under load", changes},
		{"between the policies", phases},
	} {
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, w) }) {
			t.FailNow() // later steps depend on this one
		}
	}
}

// pull is the Secret that the registry is asked with.
func (w *world) pull(t *testing.T) {
	t.Helper()
	w.writeConfig(t, "secret", fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: pull, namespace: default}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '%s'}}`,
		w.registry.Login(password)))
}

// sides: a plugin runs on the side that its mode selects, in the workloads that it selects, with a
// module from a web server and from a registry that requires a password.
func sides(t *testing.T, w *world) {
	w.pull(t)
	w.registry.Push("/mesh/out:v1", wasm.AddsHeader("x-wasm", "out"))
	w.plugin(t, "in", "server", "match: [{mode: SERVER}], url: URL/answers/x-wasm/in")
	w.eventually(t, "a plugin of who is called", http.StatusOK, "in")
	w.plugin(t, "out", "client", `match: [{mode: CLIENT, ports: [{number: 8090}]}], url: "OCI/mesh/out:v1", imagePullSecret: pull`)
	w.eventually(t, "and one of who calls", http.StatusOK, "in", "out")
	w.plugin(t, "out", "client", `match: [{mode: SERVER}], url: "OCI/mesh/out:v1", imagePullSecret: pull`)
	w.eventually(t, "whose pod is not called", http.StatusOK, "in")
	w.plugin(t, "out", "client", `match: [{mode: CLIENT, ports: [{number: 9999}]}], url: "OCI/mesh/out:v1", imagePullSecret: pull`)
	w.plugin(t, "in", "server", "match: [{mode: CLIENT}], url: URL/answers/x-wasm/in")
	w.eventually(t, "who does not call, and another port", http.StatusOK)
	w.plugin(t, "in", "server", "url: URL/answers/x-wasm/both")
	w.plugin(t, "out", "client", `url: "OCI/mesh/out:v1", imagePullSecret: pull`)
	w.eventually(t, "on both sides", http.StatusOK, "both", "out")
	w.writeConfig(t, "in", "")
	w.writeConfig(t, "out", "")
	w.eventually(t, "without plugins again", http.StatusOK)
}

// checksums: a module with another checksum does not run, and requests pass or fail as the plugin's
// failStrategy requires.
func checksums(t *testing.T, w *world) {
	digest := w.registry.Push("/mesh/sum:v1", wasm.AddsHeader("x-wasm", "sum"))
	other := w.registry.Push("/mesh/sum:v2", wasm.AddsHeader("x-wasm", "other"))
	for _, app := range []string{"server", "client"} {
		code := func(sha, strategy string) string {
			return fmt.Sprintf(`url: "OCI/mesh/sum:v1", imagePullSecret: pull, sha256: %s, failStrategy: %s`, sha, strategy)
		}
		w.plugin(t, "sum", app, code(digest, "FAIL_CLOSE"))
		w.eventually(t, "the right checksum, at the "+app, http.StatusOK, "sum")
		w.plugin(t, "sum", app, code(other, "FAIL_CLOSE"))
		w.eventually(t, "a wrong one, closed", http.StatusForbidden)
		w.plugin(t, "sum", app, code(other, "FAIL_OPEN"))
		w.eventually(t, "a wrong one, open", http.StatusOK)
		w.plugin(t, "sum", app, "url: URL/answers/x-wasm/text, sha256: "+strings.Repeat("a", 64))
		w.eventually(t, "a wrong one of a web server, closed", http.StatusForbidden)
		w.plugin(t, "sum", app, "failStrategy: FAIL_OPEN, url: URL/answers/x-wasm/text, sha256: "+strings.Repeat("a", 64))
		w.eventually(t, "a wrong one of a web server, open", http.StatusOK)
	}
	w.writeConfig(t, "sum", "")
	w.eventually(t, "without plugins again", http.StatusOK)
}

// changes: modules are added, changed and removed on both sides while requests run, and none fails.
func changes(t *testing.T, w *world) {
	const callers, rounds = 4, 5
	const leastRequests = 10 // of each caller in each round
	for n := range rounds {
		w.registry.Push(fmt.Sprint("/mesh/load:v", n), wasm.AddsHeader("x-wasm", fmt.Sprint("v", n)))
	}
	var sent, failed atomic.Int64
	var calling sync.WaitGroup
	defer calling.Wait()
	stop := make(chan struct{})
	defer sync.OnceFunc(func() { close(stop) })()
	for range callers {
		calling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				sent.Add(1)
				if status, _, _, err := w.says(t.Context()); err != nil || status != http.StatusOK {
					failed.Add(1)
					t.Logf("a request fails: %d, %v", status, err)
				}
			}
		})
	}
	for n := range rounds {
		image := fmt.Sprintf(`url: "OCI/mesh/load:v%d", imagePullSecret: pull`, n)
		w.plugin(t, "load-in", "server", "match: [{mode: SERVER}], "+image)
		w.plugin(t, "load-out", "client", "match: [{mode: CLIENT}], "+image)
		tag := fmt.Sprint("v", n)
		w.eventually(t, "the module "+tag, http.StatusOK, tag, tag)
		serving.Eventually(t, effectTime, "requests in round "+tag, func() error {
			if n, want := sent.Load(), int64((n+1)*callers*leastRequests); n < want {
				return fmt.Errorf("%d were made, want %d", n, want)
			}
			return nil
		})
		w.plugin(t, "load-in", "server", "match: [{mode: SERVER}], pluginConfig: {n: 1}, "+image)
		if n == rounds/2 {
			w.writeConfig(t, "load-out", "")
			w.eventually(t, "one is deleted", http.StatusOK, tag)
		}
	}
	w.writeConfig(t, "load-in", "")
	w.writeConfig(t, "load-out", "")
	w.eventually(t, "without plugins again", http.StatusOK)
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
	t.Logf("%d requests, %d failed", sent.Load(), failed.Load())
}
