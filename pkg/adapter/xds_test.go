package adapter_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

const serviceEntries = "networking.istio.io/v1/ServiceEntry"

// runWithServices runs an adapter that has the services a and b, and returns its address.
func runWithServices(t *testing.T) string {
	t.Helper()
	address, _ := runAdapter(t, filepath.Join(t.TempDir(), "state"), func(sink adapter.Sink) error {
		for _, name := range []string{"a", "b"} {
			sink.Set(adapter.Service{
				ServiceKey: adapter.ServiceKey{Namespace: "default", Name: name},
				Hosts:      []string{name + ".test"},
				Ports:      []adapter.Port{{Number: 80, Name: "http", Protocol: "HTTP"}},
			})
		}
		sink.SyncedGeneration("1")
		return nil
	})
	return address
}

// TestIncrementalSubscription changes the names of a subscription on one stream: only a first request without
// names, or "*", subscribes to everything.
func TestIncrementalSubscription(t *testing.T) {
	t.Parallel()
	type step struct {
		subscribe, unsubscribe, want string
		unanswered                   bool
	}
	for name, steps := range map[string][]step{
		"without names": {
			{want: "default/test-a default/test-b"},
			{unsubscribe: "*", subscribe: "unknown", want: ""},
			{subscribe: "default/test-a", want: "default/test-a"},
		},
		"by name": {
			{subscribe: "default/test-a", want: "default/test-a"},
			{subscribe: "unknown", unsubscribe: "default/test-a", want: ""},
			{unsubscribe: "unknown", unanswered: true}, // no name is left
			{subscribe: "default/test-b", want: "default/test-b"},
			{subscribe: "*", want: "default/test-a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, client := dial(t, runWithServices(t))
			stream, err := client.DeltaAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				q := &discoveryv3.DeltaDiscoveryRequest{
					TypeUrl:                  serviceEntries,
					ResourceNamesSubscribe:   strings.Fields(step.subscribe),
					ResourceNamesUnsubscribe: strings.Fields(step.unsubscribe),
				}
				if err := stream.Send(q); err != nil {
					t.Fatal(err)
				}
				if step.unanswered {
					continue // an answer would be read as that to the next request
				}
				r, err := stream.Recv()
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				var got []string
				for _, x := range r.GetResources() {
					got = append(got, x.GetName())
				}
				if !slices.Equal(got, strings.Fields(step.want)) {
					t.Errorf("step %d: %q, want %q", i, got, step.want)
				}
			}
		})
	}
}

// TestStateOfTheWorldSubscription is the same for the state-of-the-world variant, in which a request has all
// names.
func TestStateOfTheWorldSubscription(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]struct {
		names string
		want  int
	}{
		"without names": {{"", 2}, {"default/test-a", 1}, {"unknown", 0}},
		"by name":       {{"default/test-a", 1}, {"", 0}, {"*", 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, client := dial(t, runWithServices(t))
			stream, err := client.StreamAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			nonce := ""
			for i, step := range steps {
				q := &discoveryv3.DiscoveryRequest{
					TypeUrl: serviceEntries, ResourceNames: strings.Fields(step.names), ResponseNonce: nonce,
				}
				if err := stream.Send(q); err != nil {
					t.Fatal(err)
				}
				r, err := stream.Recv()
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				if nonce = r.GetNonce(); len(r.GetResources()) != step.want {
					t.Errorf("step %d: %d resources, want %d", i, len(r.GetResources()), step.want)
				}
			}
		})
	}
}
