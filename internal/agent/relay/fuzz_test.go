package relay

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzFrame tests that stringField agrees with decoding the message, and that merging requests
// never fails unexpectedly.
func FuzzFrame(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResourceNamesSubscribe: []string{"a"}, ResponseNonce: "1"},
		&discoveryv3.DeltaDiscoveryRequest{},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var m discoveryv3.DeltaDiscoveryRequest
		decoded := proto.Unmarshal(a, &m)
		got, err := delta{}.requestType(a)
		if decoded == nil && (err != nil || got != m.GetTypeUrl()) {
			t.Errorf("type %q, %v; decoded %q", got, err, m.GetTypeUrl())
		}
		joined, err := delta{}.mergeRequests(a, b)
		if err == nil {
			if err := proto.Unmarshal(joined, &m); err != nil {
				t.Errorf("the merged request cannot be decoded: %v", err)
			}
		}
		_, _ = sotw{}.mergeRequests(a, b)
	})
}
