package staticconfig

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// encode returns a message as a resource.
func encode(t *testing.T, name, typeURL string, m proto.Message) *resource.Resource {
	t.Helper()
	r, err := resource.Encode(name, typeURL, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestListenerFilters: a listener filter that comes by ECDS is part of the listener. If a filter was
// not sent, an error names it.
func TestListenerFilters(t *testing.T) {
	extension, err := anypb.New(wrapperspb.String("value"))
	if err != nil {
		t.Fatal(err)
	}
	listener := encode(t, "l", api.ListenerType, &listenerv3.Listener{
		Name: "l", ListenerFilters: []*listenerv3.ListenerFilter{{
			Name: "mine",
			ConfigType: &listenerv3.ListenerFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
				ConfigSource: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}},
			}},
		}},
	})
	known := encode(t, "mine", api.ExtensionType, &corev3.TypedExtensionConfig{Name: "mine", TypedConfig: extension})
	b, err := Build(new(mesh.Proxy), []*resource.Resource{listener, known})
	if err != nil {
		t.Fatal(err)
	}
	got := b.GetStaticResources().GetListeners()[0].GetListenerFilters()[0]
	if !proto.Equal(got.GetTypedConfig(), extension) {
		t.Errorf("got %v", got)
	}
	_, err = Build(new(mesh.Proxy), []*resource.Resource{listener})
	if err == nil || !strings.Contains(err.Error(), `listener "l": extension "mine" does not exist`) {
		t.Errorf("without the extension: %v", err)
	}
}
