package xds

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// FuzzReadObject: an object is used only without an Error, has the name that it was sent under, and
// is read the same twice.
func FuzzReadObject(f *testing.F) {
	f.Add(wrapped(f, "ns/a", "1", entry("a.example.com")).Value)
	f.Add(wrapped(f, "ns/b", "1", entry("")).Value)
	f.Add([]byte{0x0a, 0x06, 0x0a, 0x04, 'n', 's', '/', 'a'})
	info := kindInfo(f, api.ServiceEntry)
	key := config.Key{Kind: api.ServiceEntry, Namespace: "ns", Name: "a"}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		c, problems := readObject(info, key, encoded, "test")
		bad := false
		for _, p := range problems {
			bad = bad || p.Severity == config.Error
			if p.Key != key {
				t.Errorf("a Problem of %s", p.Key)
			}
		}
		if (c == nil) != bad || c != nil && c.Key != key {
			t.Errorf("%v with %v", c, problems)
		}
		if again, _ := readObject(info, key, encoded, "test"); c != nil && (again == nil || again.Hash != c.Hash) {
			t.Error("read another way the second time")
		}
	})
}

// FuzzDelta: an incremental response is read as protobuf reads it.
func FuzzDelta(f *testing.F) {
	good := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: serviceEntries, SystemVersionInfo: "1", Nonce: "n", RemovedResources: []string{"ns/b"},
		Resources: []*discoveryv3.Resource{{Name: "ns/a", Version: "1", Resource: &anypb.Any{TypeUrl: "t"}}},
	}
	f.Add(marshal(f, good))
	f.Add([]byte{0x32, 0x00, 0x32, 0x01, 'x'})
	f.Fuzz(func(t *testing.T, message []byte) {
		var want discoveryv3.DeltaDiscoveryResponse
		if proto.Unmarshal(message, &want) != nil {
			return
		}
		got, err := readResponse(message, true)
		if err != nil {
			t.Fatalf("cannot be read, but protobuf can: %v", err)
		}
		if got.typeURL != want.TypeUrl || got.nonce != want.Nonce || strings.Join(got.removed, "|") != strings.Join(want.RemovedResources, "|") {
			t.Errorf("read %q %q %q, want %v", got.typeURL, got.nonce, got.removed, &want)
		}
		n := 0
		got.forEachResource(func([]byte) { n++ })
		if n != len(want.Resources) {
			t.Errorf("%d resources, want %d", n, len(want.Resources))
		}
	})
}

// FuzzParseAddress: an address of a server has a host and a port, one of files a path.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"xds://istiod:15010", "xds://[::1]:15010?mode=delta", "fs:///etc/config", "k8s://", "xds://", "xds://a:b@c:1", "fs://..", "xds://host:99999", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		switch {
		case err != nil:
		case a.Scheme == SchemeXDS && !strings.Contains(a.Host, ":"), a.Scheme == SchemeFile && a.Path == "", a.Text != text:
			t.Errorf("%q is %+v", text, a)
		}
	})
}
