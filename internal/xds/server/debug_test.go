package server

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// pages implements Debug for clients of one namespace, or of all if it is "".
type pages struct {
	namespace string
	refuse    error
}

func (pages) Identifier() string                { return `{"Component":"istiod"}` }
func (p pages) Namespace(Hello) (string, error) { return p.namespace, p.refuse }
func (p pages) Page(name, ns string) ([]byte, error) {
	if name == "nosuch" {
		return nil, status.Error(codes.NotFound, "404 page not found")
	}
	return []byte(name + " for " + ns), nil
}

func (pages) ConfigDump(c push.Connection) ([]*anypb.Any, error) {
	a, err := anypb.New(wrapperspb.String(c.ID))
	return []*anypb.Any{a}, err
}

// debugNode is the node that istioctl sends.
var debugNode = &corev3.Node{Id: "debug~0.0.0.0~istioctl~cluster.local"}

// queryDebug sends a debug request on a new stream, and returns the response.
func (h *harness) queryDebug(
	t *testing.T,
	mode stream.Mode,
	typeURL string,
	names ...string,
) (*discoveryv3.DiscoveryResponse, error) {
	t.Helper()
	ads := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial())
	if mode == stream.SotW {
		st, err := ads.StreamAggregatedResources(t.Context())
		if err != nil {
			return nil, err
		}
		if err := st.Send(
			&discoveryv3.DiscoveryRequest{
				Node:          debugNode,
				TypeUrl:       typeURL,
				ResourceNames: names,
				ResponseNonce: "a time",
			},
		); err != nil {
			return nil, err
		}
		return st.Recv()
	}
	st, err := ads.DeltaAggregatedResources(t.Context())
	if err != nil {
		return nil, err
	}
	if err := st.Send(
		&discoveryv3.DeltaDiscoveryRequest{Node: debugNode, TypeUrl: typeURL, ResourceNamesSubscribe: names},
	); err != nil {
		return nil, err
	}
	m, err := st.Recv()
	if err != nil {
		return nil, err
	}
	r := &discoveryv3.DiscoveryResponse{TypeUrl: m.TypeUrl, ControlPlane: m.ControlPlane}
	for _, x := range m.Resources {
		if x.Name == "" {
			t.Error("a resource has no name")
		}
		r.Resources = append(r.Resources, x.Resource)
	}
	return r, nil
}

func TestDebugPages(t *testing.T) {
	tests := []struct {
		typeURL string
		names   []string
		want    string
		code    codes.Code
	}{
		{"istio.io/debug", []string{"edsz?proxyID=a.b"}, "edsz?proxyID=a.b for shop", 0},
		{"istio.io/debug", []string{"nosuch"}, "404 page not found", 0},
		{"istio.io/debug/adsz", nil, "adsz for shop", 0},
		{"istio.io/debug", nil, "", codes.InvalidArgument},
		{"istio.io/debug", []string{"a", "b"}, "", codes.InvalidArgument},
	}
	h := serve(t, 1, Options{Debug: pages{namespace: "shop"}})
	for _, tt := range tests {
		t.Run(tt.typeURL+strings.Join(tt.names, ","), func(t *testing.T) {
			inBothModes(t, func(t *testing.T, mode stream.Mode) {
				m, err := h.queryDebug(t, mode, tt.typeURL, tt.names...)
				if status.Code(err) != tt.code {
					t.Fatalf("error = %v, want %v", err, tt.code)
				}
				if err != nil {
					return
				}
				if m.TypeUrl != tt.typeURL || len(m.Resources) != 1 || m.Resources[0].TypeUrl != debugType ||
					string(m.Resources[0].Value) != tt.want || m.ControlPlane.Identifier != `{"Component":"istiod"}` {
					t.Errorf("got %v, want %q", m, tt.want)
				}
			})
		})
	}
	if n := len(h.server.Connections()); n != 0 {
		t.Errorf("%d proxies are connected, want none", n)
	}
}

func TestDebugIsRefused(t *testing.T) {
	for code, debug := range map[codes.Code]Debug{
		codes.Unimplemented: nil, codes.Unauthenticated: pages{refuse: status.Error(codes.Unauthenticated, "no valid token")},
	} {
		h := serve(t, 1, Options{Debug: debug})
		for _, typeURL := range []string{debugType, debugSyncz, debugDump} {
			if _, err := h.queryDebug(t, stream.SotW, typeURL, "x"); status.Code(err) != code {
				t.Errorf("%s ended with %v, want %v", typeURL, err, code)
			}
		}
	}
}

// TestSyncz checks the sync status of three proxies: one that acknowledged everything, one that
// refused a listener and one that did not answer.
func TestSyncz(t *testing.T) {
	h := serve(t, 2, Options{Debug: pages{}})
	good := h.connect(stream.Delta, testNode(1))
	good.start()
	silent := h.connect(stream.SotW, testNode(2))
	silent.ask(api.ClusterType, nil, nil)
	silent.want(api.ClusterType)
	angry := h.connect(stream.Delta, testNode(3))
	angry.ask(api.ListenerType, nil, nil)
	angry.ack(angry.want(api.ListenerType), nil, "listener refused")
	h.wait("the ACKs and the NACK are recorded", func() bool {
		done := 0
		for _, c := range h.server.Connections() {
			for _, w := range c.Types {
				if w.AckedNonce != "" && w.AckedNonce == w.SentNonce || w.Message != "" {
					done++
				}
			}
		}
		return done == 5
	})
	want := map[string]map[string]statusv3.ConfigStatus{
		"p1.default": {
			api.ClusterType: statusv3.ConfigStatus_SYNCED, api.EndpointType: statusv3.ConfigStatus_SYNCED,
			api.ListenerType: statusv3.ConfigStatus_SYNCED, api.RouteType: statusv3.ConfigStatus_SYNCED,
		},
		"p2.default": {api.ClusterType: statusv3.ConfigStatus_STALE},
		"p3.default": {api.ListenerType: statusv3.ConfigStatus_ERROR},
	}
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		m, err := h.queryDebug(t, mode, debugSyncz)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Resources) != len(want) {
			t.Fatalf("%d proxies, want %d", len(m.Resources), len(want))
		}
		for _, r := range m.Resources {
			c := new(statusv3.ClientConfig)
			if err := r.UnmarshalTo(c); err != nil {
				t.Fatal(err)
			}
			if v := c.Node.Metadata.Fields["ISTIO_VERSION"].GetStringValue(); v != "1.31.0" {
				t.Errorf("the version of %s is %q", c.Node.Id, v)
			}
			types := want[c.Node.Id]
			if len(c.GenericXdsConfigs) != len(types) {
				t.Errorf("%s has %v", c.Node.Id, c.GenericXdsConfigs)
			}
			for _, g := range c.GenericXdsConfigs {
				if g.ConfigStatus != types[g.TypeUrl] {
					t.Errorf("%s of %s is %v, want %v", api.ShortType(g.TypeUrl), c.Node.Id,
						g.ConfigStatus, types[g.TypeUrl])
				}
				if g.LastUpdated == nil {
					t.Errorf("%s of %s has no time: istioctl would show an age of decades",
						api.ShortType(g.TypeUrl), c.Node.Id)
				}
				if refused := g.ErrorState.GetDetails(); (refused != "") != (g.ConfigStatus == statusv3.ConfigStatus_ERROR) {
					t.Errorf("the refusal is %q", refused)
				}
			}
		}
	})
}

// TestTheNewestStreamCounts: if a node has two streams, as during a hot restart, both are served,
// and queries about the proxy return the state of the newer stream (hazard X20).
func TestTheNewestStreamCounts(t *testing.T) {
	h := serve(t, 2, Options{Debug: pages{}})
	old := h.connect(stream.Delta, testNode(1))
	old.start()
	time.Sleep(time.Millisecond) // the streams are ordered by their start time
	next := h.connect(stream.Delta, testNode(1))
	next.ask(api.ClusterType, nil, nil)
	next.want(api.ClusterType)
	list := h.server.Connections()
	if len(list) != 2 {
		t.Fatalf("%d streams, want 2", len(list))
	}
	newest := list[0]
	if list[1].ConnectedAt.After(newest.ConnectedAt) {
		newest = list[1]
	}
	m, err := h.queryDebug(t, stream.SotW, debugSyncz)
	if err != nil {
		t.Fatal(err)
	}
	c := new(statusv3.ClientConfig)
	if len(m.Resources) != 1 || m.Resources[0].UnmarshalTo(c) != nil || len(c.GenericXdsConfigs) != 1 {
		t.Errorf("syncz = %v, want the state of the newer stream", m.Resources)
	}
	for _, name := range []string{testNode(1).Id, "p1.default", newest.ID} {
		m, err := h.queryDebug(t, stream.SotW, debugDump, name)
		if err != nil {
			t.Fatal(err)
		}
		id := new(wrapperspb.StringValue)
		if len(m.Resources) != 1 || m.Resources[0].UnmarshalTo(id) != nil || id.Value != newest.ID {
			t.Errorf("the config dump of %s is %v, want that of %s", name, m.Resources, newest.ID)
		}
	}
	old.end()
	_ = old.wantEnd()
	h.mesh.AddService("new")
	next.want(api.ClusterType) // the end of the older stream does not affect the newer one
}

func TestDebugKeepsToItsNamespace(t *testing.T) {
	h := serve(t, 2, Options{Debug: pages{namespace: "shop"}})
	h.connect(stream.Delta, testNode(1)).start()
	for typeURL, name := range map[string]string{debugSyncz: "", debugDump: "p1.default"} {
		m, err := h.queryDebug(t, stream.Delta, typeURL, name)
		if err != nil || len(m.Resources) != 0 {
			t.Errorf("%s returns %v, %v", typeURL, m, err)
		}
	}
}

// TestDebugOnAProxysStream sends debug requests on the stream of a proxy, as an agent does that
// forwards them.
func TestDebugOnAProxysStream(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		h := serve(t, 1, Options{Debug: pages{}})
		c := h.connect(mode, testNode(1))
		c.start()
		c.ask(debugSyncz, nil, nil)
		a := c.want(debugSyncz)
		if len(a.bodies) != 1 {
			t.Errorf("the answer has %d resources, want one", len(a.bodies))
		}
		c.ack(a, nil, "") // must not be treated as another request
		h.mesh.EditRoutes()
		c.want(api.RouteType)
		c.ask(debugType, nil, nil) // names no page; the stream must not end
		c.want(debugType)
	})
}

// TestDebugAnswersAreAcknowledged: the ACK of a debug response, which istioctl's client sends, is
// not treated as another request.
func TestDebugAnswersAreAcknowledged(t *testing.T) {
	h := serve(t, 1, Options{Debug: pages{}})
	c := h.connect(stream.SotW, debugNode)
	c.ask("istio.io/debug/adsz", nil, nil)
	c.ack(c.want("istio.io/debug/adsz"), nil, "")
	c.ask("istio.io/debug/mesh", nil, nil)
	c.want("istio.io/debug/mesh")
}
