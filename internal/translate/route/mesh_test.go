package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// document is one YAML document of a test's input.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`

	// age is the document's place in the input: the first object is the oldest.
	age int
}

func (d document) key() config.Key {
	return config.Key{Kind: api.Kind(d.Kind), Namespace: d.Metadata.Namespace, Name: d.Metadata.Name}
}

func (d document) created() time.Time { return time.Unix(int64(1_000+d.age), 0) }

// events reads the YAML that a user would write: Services, ServiceEntries, and the objects that
// route.
func events(text []byte) ([]mesh.Event, error) {
	var out []mesh.Event
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for i := 0; ; i++ {
		d := document{age: i}
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if d.Metadata.Namespace == "" {
			d.Metadata.Namespace = "default"
		}
		list, err := d.events()
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		out = append(out, list...)
	}
}

func (d document) events() ([]mesh.Event, error) {
	switch d.Kind {
	case "Service":
		var spec corev1.ServiceSpec
		if err := json.Unmarshal(d.Spec, &spec); err != nil {
			return nil, err
		}
		return []mesh.Event{{Service: d.kubernetes(spec)}}, nil
	case "ServiceEntry":
		spec := new(networking.ServiceEntry)
		if err := protojson.Unmarshal(d.Spec, spec); err != nil {
			return nil, err
		}
		var out []mesh.Event
		for _, h := range spec.Hosts {
			out = append(out, mesh.Event{Service: d.entry(spec, mesh.Hostname(h))})
		}
		return out, nil
	case "VirtualService":
		return d.config(new(networking.VirtualService))
	case "DestinationRule":
		return d.config(new(networking.DestinationRule))
	case "Sidecar":
		return d.config(new(networking.Sidecar))
	default:
		return nil, fmt.Errorf("kind %q is not for routes", d.Kind)
	}
}

func (d document) config(spec proto.Message) ([]mesh.Event, error) {
	if err := protojson.Unmarshal(d.Spec, spec); err != nil {
		return nil, err
	}
	c, err := config.New(config.Meta{Key: d.key(), Created: d.created()}, spec)
	return []mesh.Event{{Config: c}}, err
}

func (d document) kubernetes(spec corev1.ServiceSpec) *mesh.Service {
	s := mesh.Service{
		ServiceKey: mesh.ServiceKey{
			Namespace: d.Metadata.Namespace,
			Host:      mesh.Hostname(d.Metadata.Name + "." + d.Metadata.Namespace + ".svc.cluster.local"),
		},
		Provider: mesh.Kubernetes, Name: d.Metadata.Name, Resolution: mesh.Static, Created: d.created(), From: d.key(),
	}
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		s.Resolution, s.AliasOf = mesh.Alias, mesh.Hostname(spec.ExternalName)
	case spec.ClusterIP == corev1.ClusterIPNone:
		s.Resolution, s.Headless = mesh.Passthrough, true
	case spec.ClusterIP != "":
		s.Addresses = []string{spec.ClusterIP}
	}
	if len(spec.ClusterIPs) > 0 {
		s.Addresses = spec.ClusterIPs
	}
	for _, p := range spec.Ports {
		name, _, _ := strings.Cut(p.Name, "-")
		protocol, _ := mesh.ParseProtocol(name)
		s.Ports = append(
			s.Ports,
			mesh.Port{Name: p.Name, Number: uint32(p.Port), Protocol: protocol, Target: uint32(p.Port)},
		)
	}
	return s.Sealed()
}

func (d document) entry(spec *networking.ServiceEntry, host mesh.Hostname) *mesh.Service {
	s := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: d.Metadata.Namespace, Host: host},
		Provider:   mesh.External, Name: d.Metadata.Name, Addresses: spec.Addresses, Resolution: mesh.Static,
		ExportTo: spec.ExportTo, Created: d.created(), From: d.key(),
	}
	for _, p := range spec.Ports {
		protocol, _ := mesh.ParseProtocol(p.Protocol)
		s.Ports = append(s.Ports, mesh.Port{Name: p.Name, Number: p.Number, Protocol: protocol, Target: p.Number})
	}
	return s.Sealed()
}

// proxy is the caller of a test's input.
type proxy struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	Addresses []netip.Addr      `json:"addresses"`
}

func (p proxy) proxy() *mesh.Proxy {
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.Addresses == nil {
		p.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 9, 9})}
	}
	return &mesh.Proxy{
		Type: mesh.SidecarProxy, Name: "client", Namespace: p.Namespace, Labels: p.Labels, Addresses: p.Addresses,
		DNSDomain: p.Namespace + ".svc.cluster.local",
	}
}

// world is a mesh under test: the sections "config.yaml", "mesh.yaml" and "proxy.yaml" of a golden
// file, or text.
type world struct {
	builder *snapshot.Builder
	proxy   proxy
}

func newWorld(t testing.TB, text, meshText, proxyText []byte) *world {
	t.Helper()
	w := &world{builder: snapshot.NewBuilder(snapshot.Options{})}
	list, err := events(text)
	if err != nil {
		t.Fatal(err)
	}
	if meshText != nil {
		m, err := mesh.ParseMeshConfig(meshText)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, mesh.Event{Settings: &mesh.Settings{Mesh: m}})
	}
	if err := yaml.Unmarshal(proxyText, &w.proxy); err != nil {
		t.Fatal(err)
	}
	w.builder.Apply(list...)
	return w
}

// apply adds or replaces objects.
func (w *world) apply(t testing.TB, text string) snapshot.Delta {
	t.Helper()
	list, err := events([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, d := w.builder.Apply(list...)
	return d
}

func (w *world) view() *view.View {
	s := w.builder.Current()
	return view.Build(s, view.KeyFor(s, w.proxy.proxy()))
}
