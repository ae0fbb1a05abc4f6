package adapter_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// runAdapter runs an adapter with a state file until stop is called or the test ends. Its platform reports
// by watch, and is then silent. It returns the address of the adapter.
func runAdapter(t *testing.T, file string, watch func(adapter.Sink) error) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	p := adapter.PlatformFunc(func(ctx context.Context, sink adapter.Sink) error {
		if err := watch(sink); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	o := adapter.Options{
		Platform: "Test", Address: "127.0.0.1:0", StateFile: file, Listening: func(a net.Addr) { listening <- a },
		Follow: adapter.FollowOptions{Backoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond},
	}
	go func() { done <- adapter.Run(ctx, p, o) }()
	stopped := false
	stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return (<-listening).String(), stop
}

// readEntries returns the names of the ServiceEntries that an adapter has, when it answers.
func readEntries(t *testing.T, address string) []string {
	t.Helper()
	ctx, client := dial(t, address)
	stream, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "networking.istio.io/v1/ServiceEntry"}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, x := range r.GetResources() {
		names = append(names, x.GetName())
	}
	return names
}

// dial returns a client of the adapter at an address, and a context that ends after 20 seconds. Both
// end with the test.
func dial(t *testing.T, address string) (context.Context, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(func() { cancel(); _ = conn.Close() })
	return ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// TestStateOutlivesTheProcess restarts an adapter while its platform is unreachable, has lost its data, or has
// deregistered a service in the meantime.
func TestStateOutlivesTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	synced := make(chan struct{}, 1)
	report := func(generation string, names ...string) func(adapter.Sink) error {
		return func(sink adapter.Sink) error {
			for _, n := range names {
				sink.Set(service(n, "i1"))
			}
			sink.SyncedGeneration(generation)
			synced <- struct{}{}
			return nil
		}
	}
	unreachable := func(adapter.Sink) error { return context.DeadlineExceeded }
	for _, step := range []struct {
		name  string
		watch func(adapter.Sink) error
		want  []string
	}{
		{"first start", report("A", "a", "b"), []string{"default/test-a", "default/test-b"}},
		{"unreachable", unreachable, []string{"default/test-a", "default/test-b"}},
		{"a service is gone", report("A", "a"), []string{"default/test-a"}},
		{"empty, and another generation", report("B"), []string{"default/test-a"}},
		{"the same after that", report("B"), []string{"default/test-a"}},
		{"registered again", report("B", "a", "c"), []string{"default/test-a", "default/test-c"}},
		{"deregistered", report("B", "c"), []string{"default/test-c"}},
		{"without a generation", report(""), []string{"default/test-c"}},
	} {
		address, stop := runAdapter(t, file, step.watch)
		if step.name != "unreachable" {
			<-synced
		}
		if got := readEntries(t, address); !slices.Equal(got, step.want) {
			t.Errorf("%s: serves %v, want %v", step.name, got, step.want)
		}
		stop()
	}
	left, err := filepath.Glob(file + ".*")
	if err != nil || len(left) > 0 {
		t.Errorf("files %v are left, error %v", left, err)
	}
}

// TestRunRefusesOtherStates tests that a state file with another content is an error. It is not replaced.
func TestRunRefusesOtherStates(t *testing.T) {
	for content, want := range map[string]string{
		"{":                                     "unexpected end of JSON input",
		`{"platform": "Other", "services": []}`: `is the state of platform "Other", not of "Test"`,
		`{"platform": "Test", "services": [{"name": "a"}]}`: "has a service without a name or a namespace",
	} {
		file := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := adapter.PlatformFunc(func(context.Context, adapter.Sink) error { t.Error("the platform is watched"); return nil })
		err := adapter.Run(t.Context(), p, adapter.Options{Platform: "Test", Address: "127.0.0.1:0", StateFile: file})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v, want %q", err, want)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != content {
			t.Errorf("the file has %q, error %v", after, err)
		}
	}
}
