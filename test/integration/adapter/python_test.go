package adapter

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// newPythonSample returns the adapter in Python, which does not run yet. The test is skipped unless
// MESHPILOT_PLATFORMS=true.
func newPythonSample(t testing.TB) (s *sample, command *exec.Cmd) {
	t.Helper()
	if os.Getenv("MESHPILOT_PLATFORMS") != "true" {
		t.Skip("it needs Python and packages of its registry: `make platforms` runs it")
	}
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	sources := filepath.Join(root, "samples", "adapter", "python")
	python := installPython(t, sources)
	s = &sample{Process: process.New(t, "the adapter in Python"), address: serving.FreeAddress(t), t: t, dir: t.TempDir()}
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	command = exec.Command(python, "-B", filepath.Join(sources, "adapter.py"), "--file", s.file(), "--port", port)
	return s, command
}

// installPython returns the Python program of a virtual environment in the user's cache. setup.sh
// creates it if it is missing, or if what it consists of has changed.
func installPython(t testing.TB, sources string) string {
	t.Helper()
	version, err := exec.Command("python3", "--version").Output()
	if err != nil {
		t.Fatal("`make platforms` needs python3: ", err)
	}
	istio, err := exec.Command("go", "list", "-m", "istio.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	content := slices.Concat(version, istio)
	for _, name := range []string{"setup.sh", "requirements.txt"} {
		text, err := os.ReadFile(filepath.Join(sources, name))
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, text...)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "meshpilot", fmt.Sprintf("python-adapter-%x", sha256.Sum256(content))[:32])
	python, complete := filepath.Join(dir, "bin", "python"), filepath.Join(dir, "complete")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := program.Lock(dir + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(complete); err == nil {
		return python
	}
	t.Log("installing the packages of the adapter in Python: once")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(sources, "setup.sh"), dir).CombinedOutput(); err != nil {
		t.Fatalf("setup.sh: %v\n%s", err, out)
	}
	if err := os.WriteFile(complete, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// TestPythonSample runs the rules of pilotctl adapter test with the adapter in Python. Then a
// client receives the changes of its file, and retains the last valid services while the file is
// invalid.
func TestPythonSample(t *testing.T) {
	s, command := newPythonSample(t)
	s.list(8080, 8081)
	s.Start(command)
	s.requireRules()

	client := newEntryClient(t, s.address)
	client.requireChange("default/python-orders", "8080 8081")
	s.list(8081)
	client.requireChange("default/python-orders", "8081")
	s.write([]byte("["))
	newEntryClient(t, s.address).requireChange("default/python-orders", "8081")
	s.write([]byte(`[
		{"name": "orders", "hosts": []},
		{"name": "new", "hosts": ["new.example"], "ports": [{"name": "http", "number": 80}], "instances": [
			{"id": "a", "address": "127.0.0.1", "ports": {"http": 9090}},
			{"id": "b", "address": "127.0.0.1", "ports": {"http": 9091}, "health": "unhealthy"}]}]`))
	client.requireChange("default/python-new", "9090") // orders is not valid and stays
	newEntryClient(t, s.address).requireChange("default/python-orders", "8081")
	s.list(8082)
	client.requireChange("default/python-orders", "8082")
	if !slices.Equal(client.removed, []string{"default/python-new"}) {
		t.Errorf("the removed resources are %q", client.removed)
	}
	s.Stop()
}

// entryClient is a client that subscribes to ServiceEntries by the incremental variant.
type entryClient struct {
	t       testing.TB
	stream  discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	removed []string // by all responses
}

func newEntryClient(t testing.TB, address string) *entryClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.TypeURLs()[api.ServiceEntry]}); err != nil {
		t.Fatal(err)
	}
	return &entryClient{t: t, stream: stream}
}

// requireChange fails the test unless the next response has a valid ServiceEntry of that name, whose
// endpoints have these ports.
func (c *entryClient) requireChange(name, ports string) {
	c.t.Helper()
	response, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	c.removed = append(c.removed, response.GetRemovedResources()...)
	for _, r := range response.GetResources() {
		if r.GetName() != name {
			continue
		}
		_, object, problems := xds.ReadResource(api.ServiceEntry, r.GetResource())
		if object == nil {
			c.t.Fatalf("%s: %+v", name, problems)
		}
		var have []string
		for _, e := range object.Spec.(*networking.ServiceEntry).GetEndpoints() {
			have = append(have, fmt.Sprint(e.GetPorts()["http"]))
		}
		if got := strings.Join(have, " "); got != ports {
			c.t.Fatalf("the ports of %s are %s, want %s", name, got, ports)
		}
		return
	}
	c.t.Fatalf("the response has no %s: %v", name, response)
}
