package server

import (
	"net/netip"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func metadata(t testing.TB, json string) *structpb.Struct {
	t.Helper()
	s := new(structpb.Struct)
	if err := protojson.Unmarshal([]byte(json), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProxyOfNode(t *testing.T) {
	const id = "sidecar~10.0.0.1~reviews-1.shop~shop.svc.cluster.local"
	base := mesh.Proxy{
		ID: id, Type: mesh.SidecarProxy, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Name: "reviews-1", Namespace: "shop", DNSDomain: "shop.svc.cluster.local",
	}
	with := func(change func(*mesh.Proxy)) mesh.Proxy {
		p := base
		change(&p)
		return p
	}
	tests := []struct {
		name string
		node *corev3.Node
		want mesh.Proxy
		err  string
	}{
		{"only an id", &corev3.Node{Id: id}, base, ""},
		{"a namespace in the metadata alone", &corev3.Node{
			Id: "sidecar~10.0.0.1~edge~example.com", Metadata: metadata(t, `{"NAMESPACE": "shop"}`),
		}, with(func(p *mesh.Proxy) {
			p.ID, p.Name, p.DNSDomain = "sidecar~10.0.0.1~edge~example.com", "edge", "example.com"
		}), ""},
		{"no namespace", &corev3.Node{Id: "sidecar~10.0.0.1~edge~example.com"}, mesh.Proxy{},
			"neither the ID (name.namespace) nor NAMESPACE"},
		{"everything", &corev3.Node{
			Id:         id,
			Cluster:    "reviews.shop",
			Locality:   &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"},
			Extensions: []*corev3.Extension{{Name: "b"}, {Name: "a", Category: "x"}, {Name: "b"}},
			Metadata: metadata(
				t,
				`{"CLUSTER_ID":"c1","NETWORK":"n1","LABELS":{"app":"reviews"},"INSTANCE_IPS":"10.0.0.1,fd00::1"}`,
			),
		}, with(func(p *mesh.Proxy) {
			p.Cluster, p.ClusterID, p.Network, p.Labels = "reviews.shop", "c1", "n1", map[string]string{
				"app": "reviews",
			}
			p.Addresses = append(p.Addresses[:1:1], netip.MustParseAddr("fd00::1"))
			p.Locality = mesh.Locality{Region: "r", Zone: "z", SubZone: "s"}
			p.Extensions = []string{"a", "b"}
		}), ""},
		{"Envoy version", &corev3.Node{Id: id, UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
			UserAgentBuildVersion: &corev3.BuildVersion{
				Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 36, Patch: 4},
			},
		}}, with(func(p *mesh.Proxy) { p.EnvoyVersion = mesh.EnvoyVersion{Major: 1, Minor: 36, Patch: 4} }), ""},
		{
			"a release as text says nothing",
			&corev3.Node{Id: id, UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.36.4"}},
			base,
			"",
		},
		{"NAMESPACE differs from that of the id", &corev3.Node{Id: id, Metadata: metadata(t, `{"NAMESPACE":"other"}`)},
			with(func(p *mesh.Proxy) { p.Namespace = "other" }), ""},
		{"an alias of a cluster", &corev3.Node{Id: id, Metadata: metadata(t, `{"CLUSTER_ID":"old"}`)},
			with(func(p *mesh.Proxy) { p.ClusterID = "Kubernetes" }), ""},
		{
			"a field of another kind does no harm",
			&corev3.Node{Id: id, Metadata: metadata(t, `{"LABELS":7,"NETWORK":"n1"}`)},
			with(func(p *mesh.Proxy) { p.Network = "n1" }),
			"",
		},
		{
			"a bad address",
			&corev3.Node{Id: id, Metadata: metadata(t, `{"INSTANCE_IPS":"10.0.0"}`)},
			mesh.Proxy{},
			"INSTANCE_IPS",
		},
		{"a forged id", &corev3.Node{Id: "sidecar~10.0.0.1~web\n2026.shop~x"}, mesh.Proxy{}, "not printable"},
		{
			"a forged namespace",
			&corev3.Node{Id: id, Metadata: metadata(t, `{"NAMESPACE":"a\nb"}`)},
			mesh.Proxy{},
			"NAMESPACE",
		},
		{"a forged service cluster", &corev3.Node{Id: id, Cluster: "a\x1b[2K"}, mesh.Proxy{}, "node.cluster"},
		{"a forged locality", &corev3.Node{Id: id, Locality: &corev3.Locality{Zone: "z\u2028"}}, mesh.Proxy{}, "zone"},
		{
			"a long network",
			&corev3.Node{Id: id, Metadata: metadata(t, `{"NETWORK":"`+strings.Repeat("n", 2000)+`"}`)},
			mesh.Proxy{},
			"NETWORK",
		},
		{"no id", &corev3.Node{Cluster: "x"}, mesh.Proxy{}, "node.id is missing"},
		{"no node", nil, mesh.Proxy{}, "node.id is missing"},
	}
	s := New(Options{ClusterAliases: map[mesh.ClusterID]mesh.ClusterID{"old": "Kubernetes"}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.parseNode(tt.node, extensionNames(tt.node.GetExtensions()))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(
				&tt.want,
				got,
				cmpopts.EquateComparable(netip.Addr{}),
				cmpopts.IgnoreFields(mesh.Proxy{}, "Metadata"),
			); d != "" {
				t.Errorf("proxy (-want +got):\n%s", d)
			}
		})
	}
}
