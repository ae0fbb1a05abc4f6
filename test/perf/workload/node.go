package workload

import (
	"fmt"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// Node is one sidecar of the mesh.
type Node struct {
	// Namespace and ServiceAccount are its identity.
	Namespace, ServiceAccount string
	// Bytes is its encoded Envoy Node, without the fields of EnvoyBuild.
	Bytes []byte
}

// istioVersion is the Istio version that the sidecars report.
const istioVersion = "1.29.0"

// Nodes makes sidecars. Sidecar i runs on one of the generated endpoints of service i mod Services;
// where there are more sidecars than endpoints the rest run on addresses that nothing selects.
func (m *Mesh) Nodes(n int) ([]Node, error) {
	list := make([]Node, n)
	for i := range list {
		s, round := m.services[i%len(m.services)], i/len(m.services)
		ip := fmt.Sprintf("10.150.%d.%d", i>>8&255, i&255)
		if round < len(s.addresses) {
			ip = s.addresses[round]
		}
		var err error
		if list[i], err = s.nodeOf(i, ip, round%2+1); err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
	}
	return list, nil
}

func (s *service) nodeOf(i int, ip string, version int) (Node, error) {
	pod := fmt.Sprintf("%s-%05d", s.name, i)
	meta, err := s.nodeMetadata(i, ip, pod, version)
	if err != nil {
		return Node{}, err
	}
	b := wire.AppendString(nil, 1, fmt.Sprintf("sidecar~%s~%s.%s~%s.%s", ip, pod, s.namespace, s.namespace, domain))
	b = wire.AppendString(b, 2, s.name+"."+s.namespace)
	b = wire.AppendBytes(b, 3, meta)
	locality := wire.AppendString(nil, 1, "region-1")
	locality = wire.AppendString(locality, 2, fmt.Sprintf("zone-%d", i%3+1))
	b = wire.AppendBytes(b, 4, locality)
	b = wire.AppendString(b, 6, "envoy")
	return Node{Namespace: s.namespace, ServiceAccount: s.name, Bytes: b}, nil
}

// envoyExtensions is the number of extensions that a sidecar reports. With them its node has about
// 60 KB, as that of a real Envoy.
const envoyExtensions = 450

// EnvoyBuild returns the encoded fields of a Node in which an Envoy describes its build. They are the
// same for all sidecars, and must not be changed.
var EnvoyBuild = sync.OnceValues(func() ([]byte, error) {
	n := &corev3.Node{UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
	}}
	needed := view.FeatureExtensions() // without these a proxy is sent other configuration (ADR 34)
	for _, name := range needed {
		n.Extensions = append(n.Extensions, &corev3.Extension{Name: name})
	}
	for i := range envoyExtensions - len(needed) {
		n.Extensions = append(n.Extensions, &corev3.Extension{
			Name: fmt.Sprintf("envoy.some.category.of.extensions.number_%d", i), Category: "envoy.some.category",
			TypeUrls: []string{fmt.Sprintf("envoy.extensions.some.category.number_%d.v3.Config", i)},
		})
	}
	return proto.Marshal(n)
})

// nodeMetadata is that of a Kubernetes sidecar.
func (s *service) nodeMetadata(i int, ip, pod string, version int) ([]byte, error) {
	labels := map[string]any{}
	for k, v := range s.podLabels(version) {
		labels[k] = v
	}
	m, err := structpb.NewStruct(map[string]any{
		"APP_CONTAINERS":        "app",
		"CLUSTER_ID":            "Kubernetes",
		"ENVOY_PROMETHEUS_PORT": 15090,
		"ENVOY_STATUS_PORT":     15021,
		"INSTANCE_IPS":          ip,
		"INTERCEPTION_MODE":     "REDIRECT",
		"ISTIO_VERSION":         istioVersion,
		"LABELS":                labels,
		"MESH_ID":               "cluster.local",
		"NAME":                  pod,
		"NAMESPACE":             s.namespace,
		"NODE_NAME":             fmt.Sprintf("node-%d", i%50),
		"OWNER":                 "kubernetes://apis/apps/v1/namespaces/" + s.namespace + "/deployments/" + s.name,
		"PILOT_SAN":             []any{"istiod.istio-system.svc"},
		"POD_PORTS": `[{"name":"http","containerPort":8080,"protocol":"TCP"},` +
			`{"name":"tcp","containerPort":9000,"protocol":"TCP"}]`,
		"PROXY_CONFIG": map[string]any{
			"binaryPath": "/usr/local/bin/envoy", "concurrency": 2, "configPath": "./etc/istio/proxy",
			"controlPlaneAuthPolicy": "MUTUAL_TLS", "discoveryAddress": "istiod.istio-system.svc:15012",
			"drainDuration": "45s", "proxyAdminPort": 15000, "serviceCluster": "istio-proxy",
			"statNameLength": 189, "statusPort": 15020, "terminationDrainDuration": "5s",
		},
		"SERVICE_ACCOUNT": s.name,
		"WORKLOAD_NAME":   s.name,
	})
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
