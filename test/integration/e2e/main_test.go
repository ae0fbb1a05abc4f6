package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

const (
	startTime = 2 * time.Minute
	// settleTime bounds how long a change may take to show.
	settleTime = 20 * time.Second
	poll       = 20 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(run{m})) }

// run ends the shared mesh after the tests.
type run struct{ m *testing.M }

func (r run) Run() int {
	code := r.m.Run()
	if shared.mesh != nil {
		if err := shared.mesh.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the mesh:", err)
			code = max(code, 1)
		}
	}
	os.RemoveAll(shared.dir)
	return code
}

// shared is the mesh of all tests, brought up by the first one that needs it.
var shared struct {
	once sync.Once
	dir  string
	mesh *mesh.Mesh
	err  error
}

// bookinfoMesh returns the shared mesh.
func bookinfoMesh(t *testing.T) *mesh.Mesh {
	t.Helper()
	netns.Require(t)
	proxy := envoy.RequireBinary(t)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "meshpilot-e2e-"); shared.err != nil {
			return
		}
		bin := filepath.Join(shared.dir, "bin")
		if shared.err = meshtest.Build(bin); shared.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		shared.mesh, shared.err = mesh.Start(ctx, mesh.Options{
			Binaries: bin, Envoy: proxy, Sidecars: true, Dir: shared.dir, Manifests: bookinfo.Platform(), Progress: t.Logf,
		})
	})
	if shared.err != nil {
		var p *netns.ProcessError
		if errors.As(shared.err, &p) {
			t.Logf("the end of its log:\n%s", p.Tail(30))
		}
		t.Fatal(shared.err)
	}
	return shared.mesh
}

// debugPage reads a page of the control plane as JSON.
func debugPage(t *testing.T, m *mesh.Mesh, path string, into any) {
	t.Helper()
	body := fetch(t, m.ControlPlane.Node, "http://127.0.0.1:8080"+path)
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, body)
	}
}

func fetch(t *testing.T, from *netns.Node, url string) []byte {
	t.Helper()
	c := from.Client(5 * time.Second)
	defer c.CloseIdleConnections()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, r.Status, err, body)
	}
	return body
}

// metric reads the sum of a metric's series, 0 if it has none.
func metric(t *testing.T, m *mesh.Mesh, name string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.SplitSeq(string(fetch(t, m.ControlPlane.Node, "http://127.0.0.1:15014/metrics")), "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' ')+1:], &v); err == nil {
			sum += v
		}
	}
	return sum
}
