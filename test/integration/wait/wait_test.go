package wait

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const services = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop]
  addresses: [240.1.1.1]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.1.1}]
`

// route returns a VirtualService whose content depends on a header.
func route(header string) string {
	return `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop]
  http:
  - headers: {request: {set: {x-version: "` + header + `"}}}
    route: [{destination: {host: reviews.shop}}]
`
}

// fixture is a control plane that reads a folder.
type fixture struct {
	*controlplane.Plane
	t   *testing.T
	dir string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, dir: t.TempDir()}
	f.write("services.yaml", services)
	f.write("route.yaml", route("0"))
	o := controlplane.Options(t)
	o.ConfigDir = f.dir
	f.Plane = controlplane.Start(t, o)
	return f
}

// path returns the path of a file in the folder.
func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

// write replaces a file of the folder in one step, as editors do.
func (f *fixture) write(name, text string) {
	f.t.Helper()
	next := filepath.Join(f.t.TempDir(), name)
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// connect connects a sidecar that has requested the routes.
func (f *fixture) connect(name string) *sidecar.Proxy {
	f.t.Helper()
	p := sidecar.Connect(f.t, f.GRPC, sidecar.Node(name, "shop", "10.1.1.9", nil))
	f.Eventually(name+" has its routes", func() error {
		if p.VersionOf(api.RouteType, "9080") == "" {
			return fmt.Errorf("it has %v", p.ResourceNames(api.RouteType))
		}
		return nil
	})
	return p
}

// result is the output and the exit code of a command.
type result struct {
	text string
	code int
}

// wait runs pilotctl wait.
func (f *fixture) wait(args ...string) result { return f.run("wait", args...) }

// run runs a command of pilotctl, and returns its output with its warnings.
func (f *fixture) run(command string, args ...string) result {
	c := cli.New()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(append([]string{command, "--server", f.HTTP, "--namespace", "shop"}, args...))
	err := c.ExecuteContext(f.t.Context())
	text := out.String()
	if err != nil {
		text += "error: " + err.Error() + "\n"
	}
	return result{text, cli.ExitCode(err)}
}

// want fails the test unless the command ended with the exit code and its output has all texts.
func (r result) want(t *testing.T, code int, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.text, text) {
			t.Errorf("the output lacks %q", text)
		}
	}
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if t.Failed() {
		t.Fatalf("output:\n%s", r.text)
	}
	return r
}

// wantOnce fails the test unless the output, with the error, has a text exactly once.
func (r result) wantOnce(t *testing.T, text string) {
	t.Helper()
	if n := strings.Count(r.text, text); n != 1 {
		t.Fatalf("the output has %q %d times, want once:\n%s", text, n, r.text)
	}
}

func TestWait(t *testing.T) {
	f := newFixture(t)
	f.wait("vs/reviews").want(t, 0, "no connected proxy needs it")
	a, b := f.connect("a-1"), f.connect("b-1")
	f.wait("vs/reviews").want(t, 0, "VirtualService/shop/reviews: all 2 proxies are up to date")

	// A file that was just written, before the control plane has read it.
	f.write("route.yaml", route("1"))
	f.wait("-f", f.path("route.yaml")).want(t, 0, "all 2 proxies are up to date")

	// A proxy that does not answer.
	b.SetSilent(true)
	f.write("route.yaml", route("2"))
	f.wait("-f", f.path("route.yaml"), "--timeout", "2s").want(t, 3,
		"1 of 2 proxies up to date; behind: b-1.shop (RDS 9080 not acknowledged, for ", "timed out after 2s")
	f.wait("-f", f.path("route.yaml"), "--timeout", "1s", "-o", "json").want(t, 3, `"reason": "RDS 9080 not acknowledged"`, `"since": "2`)
	f.wait("-f", f.path("route.yaml"), "--proxy", "a-1").want(t, 0, "1 proxy is up to date")
	done := make(chan result, 1)
	go func() { done <- f.wait("-f", f.path("route.yaml")) }()
	select {
	case r := <-done:
		t.Fatalf("ended while a proxy was behind: %s", r.text)
	case <-time.After(time.Second):
	}
	b.SetSilent(false)
	(<-done).want(t, 0, "all 2 proxies are up to date")

	// A deletion: the proxy must have replaced the route, although nothing names the object any more.
	b.SetSilent(true)
	if err := os.Remove(f.path("route.yaml")); err != nil {
		t.Fatal(err)
	}
	f.wait("vs/reviews", "--deleted", "--timeout", "2s").want(t, 3, "behind: b-1.shop (RDS not acknowledged, for ")
	b.SetSilent(false)
	f.wait("vs/reviews", "--deleted").want(t, 0)

	// Content that the control plane refuses.
	f.write("route.yaml", strings.Replace(route("3"), "http:", "htp:", 1))
	f.wait("vs/reviews", "--generation", "1", "--timeout", "20s").want(t, 4, "invalid", "htp").wantOnce(t, "invalid, the version before it")
	f.wait("-f", f.path("route.yaml")).want(t, 1, "htp")

	// Content that a proxy refuses.
	a.Refuse(api.RouteType)
	f.write("route.yaml", route("4"))
	f.wait("-f", f.path("route.yaml"), "--timeout", "20s").want(t, 4).wantOnce(t, "RDS 9080 rejected: no: 9080")
	f.wait("-f", f.path("route.yaml"), "-o", "json").want(t, 4, `"state": "refused"`).wantOnce(t, "RDS 9080 rejected: no: 9080")

	// Mistakes.
	f.wait("vs/absent", "--timeout", "1s").want(t, 3, "the control plane does not have the object")
	f.wait("nonsense/reviews").want(t, 1, `kind "nonsense" is not one`)
	f.wait("reviews").want(t, 1, "want KIND/NAME")
	f.wait("-f", f.path("route.yaml"), "--generation", "1").want(t, 1, "[filename generation] were all set")
	f.wait().want(t, 1, "name objects as KIND/NAME")
	f.wait("service/reviews").want(t, 1, "only what is made from them is kept")
	f.wait("vs/reviews", "--proxy", "absent").want(t, 1, `no proxy "absent" is connected`)
	f.wait("vs/reviews", "--server", serving.FreeAddress(t)).want(t, 1, "ask the control plane")
}

// TestWaitForSeveral waits for all objects of a file, with the result as JSON.
func TestWaitForSeveral(t *testing.T) {
	f := newFixture(t)
	f.connect("a-1")
	f.write("all.yaml", strings.ReplaceAll(route("1"), "reviews", "ratings")+"\n---\n"+
		strings.ReplaceAll(services, "reviews", "ratings"))
	r := f.wait("-f", f.path("all.yaml"), "-o", "json")
	r.want(t, 0)
	var list []readapi.Rollout
	if err := json.Unmarshal([]byte(r.text), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].State != readapi.Reached || list[1].State != readapi.Reached {
		t.Errorf("the result is %+v", list)
	}
}

// TestWaitIsNeverEarly makes edits while one of the proxies answers late. Wait must not end before
// that proxy has answered, and at the latest one second after it; the test allows three, because
// machines differ.
func TestWaitIsNeverEarly(t *testing.T) {
	f := newFixture(t)
	var proxies []*sidecar.Proxy
	for i := range 4 {
		proxies = append(proxies, f.connect(fmt.Sprintf("p-%d", i)))
	}
	var slowest time.Duration
	edits := longtest.Rounds(8, 150)
	for i := range edits {
		late := proxies[i%len(proxies)]
		late.SetSilent(true)
		f.write("route.yaml", route(fmt.Sprint("edit-", i)))
		var mu sync.Mutex
		var answered time.Time
		delay := time.Duration(i%5) * 60 * time.Millisecond
		timer := time.AfterFunc(delay, func() {
			mu.Lock()
			answered = time.Now()
			mu.Unlock()
			late.SetSilent(false)
		})
		r := f.wait("-f", f.path("route.yaml"))
		ended := time.Now()
		timer.Stop()
		mu.Lock()
		at := answered
		mu.Unlock()
		r.want(t, 0)
		if at.IsZero() {
			t.Fatalf("edit %d: wait ended before the last proxy answered:\n%s", i, r.text)
		}
		if d := ended.Sub(at); d > slowest {
			slowest = d
		}
	}
	t.Logf("%d edits, wait ended at most %s after the last proxy was allowed to answer", edits, slowest)
	if limit := 3 * time.Second; slowest > limit {
		t.Errorf("wait ended %s after the last answer, want at most %s", slowest, limit)
	}
}
