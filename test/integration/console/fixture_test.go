package console

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// fixture is a control plane that reads the Bookinfo mesh from a folder, with its sidecars and a
// browser.
type fixture struct {
	*browser
	plane   *controlplane.Plane
	dir     string
	proxies map[string]*sidecar.Proxy
}

// newFixture starts all of them. Rules are names of rules of Bookinfo.
func newFixture(t *testing.T, rules ...string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), proxies: map[string]*sidecar.Proxy{}}
	if err := os.CopyFS(f.dir, bookinfo.Platform()); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		text, err := bookinfo.Networking(rule)
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, rule+".yaml", text)
	}
	o := controlplane.Options(t)
	o.ConfigDir, o.PodName = f.dir, "istiod-1"
	f.plane = controlplane.Start(t, o)
	f.browser = newBrowser(t, "http://"+f.plane.HTTP)
	for name, ip := range map[string]string{
		"client": "10.66.1.10", "productpage-v1": "10.66.1.11", "details-v1": "10.66.1.21",
		"reviews-v1": "10.66.1.31", "reviews-v2": "10.66.1.32", "reviews-v3": "10.66.1.33", "ratings-v1": "10.66.1.41",
	} {
		f.proxies[name] = f.connect(t, name, ip)
	}
	return f
}

// connect connects a sidecar that has its routes.
func (f *fixture) connect(t *testing.T, name, ip string) *sidecar.Proxy {
	t.Helper()
	p := sidecar.Connect(t, f.plane.GRPC, sidecar.Node(name, "default", ip, map[string]any{"ISTIO_VERSION": "1.31.0"}))
	serving.Eventually(t, patience, name+" has its routes", func() error {
		if p.VersionOf(api.RouteType, "9080") == "" {
			return fmt.Errorf("it has %v", p.ResourceNames(api.RouteType))
		}
		return nil
	})
	return p
}

// write replaces a file of the folder in one step, as editors do.
func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// rule returns the text of a rule of Bookinfo.
func rule(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(os.DirFS("../../../samples/bookinfo"), bookinfo.RulePath(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
