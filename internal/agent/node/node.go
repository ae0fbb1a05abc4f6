package node

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Input holds the parameters of a Node.
type Input struct {
	Type        mesh.ProxyType
	Environment environment.Environment
	// Config is the effective ProxyConfig.
	Config *meshconfig.ProxyConfig
	// Labels and Annotations come from the downward API's files. They override the environment's.
	Labels, Annotations map[string]string
	// Interfaces are the host's network interfaces.
	Interfaces []Interface
	// Domain is the DNS suffix of short names. If empty, it is NAMESPACE.svc.cluster.local.
	Domain string
	// IstioLevel is the release of Istio that the agent implements, the default of ISTIO_VERSION in
	// the metadata.
	IstioLevel string
	// Version is the agent's own release, for MESHPILOT_VERSION.
	Version string
	// OutlierLogPath is the file to which Envoy logs ejected hosts. If empty, none is written.
	OutlierLogPath string
	// HasIdentity is set if the workload has a certificate of the mesh.
	HasIdentity bool
	// SeparateFileServer is set if another SDS server has the workload's identity and the agent
	// serves only secrets from files.
	SeparateFileServer bool
	// HasCredentialServer is set if an SDS server beside the proxy serves the credentials
	// sds://NAME.
	HasCredentialServer bool
}

// Node is the xDS node of a proxy. It is immutable.
type Node struct {
	// ID is "TYPE~IP~NAME.NAMESPACE~DOMAIN".
	ID   string
	Type mesh.ProxyType
	// Domain is the DNS suffix that the proxy appends to short names ("ns.svc.cluster.local").
	Domain   string
	Cluster  string
	Locality mesh.Locality
	// Addresses are the proxy's own addresses, beginning with the address in the ID. There is at
	// least one.
	Addresses []netip.Addr
	// Metadata is the typed part of the metadata. Struct is the complete metadata as it is sent.
	Metadata mesh.NodeMetadata
	Struct   *structpb.Struct
}

// Build returns the Node, whose ID has the type, the first of ProxyAddresses, POD.NAMESPACE and the
// domain. It fails if POD_NAME or POD_NAMESPACE is empty, or the metadata or ID is invalid. If
// in.Domain is empty, the domain is NAMESPACE.svc.cluster.local.
func Build(in Input) (Node, error) {
	env := in.Environment
	if err := errors.Join(
		requireVariable("POD_NAME", env.PodName),
		requireVariable("POD_NAMESPACE", env.PodNamespace),
	); err != nil {
		return Node{}, err
	}
	addresses := ProxyAddresses(env, in.Interfaces, ExcludedInterfaces(podAnnotations(in)))
	meta, all, err := buildMetadata(in, addresses)
	if err != nil {
		return Node{}, fmt.Errorf("node metadata: %w", err)
	}
	domain := cmp.Or(in.Domain, env.PodNamespace+".svc.cluster.local")
	name := env.PodName + "." + env.PodNamespace
	id := strings.Join([]string{string(in.Type), addresses[0].String(), name, domain}, "~")
	if _, err := mesh.ParseNodeID(id); err != nil {
		return Node{}, err
	}
	return Node{
		ID: id, Type: in.Type, Domain: domain,
		Cluster:   serviceCluster(in.Config, meta),
		Locality:  localityFromLabels(meta.Labels),
		Addresses: addresses,
		Metadata:  meta, Struct: all,
	}, nil
}

// requireVariable returns an error if the value of a variable is empty or blank.
func requireVariable(name, value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("environment variable %s: must be set, it is part of the node ID", name)
	}
	return nil
}

// Proto returns the node for Envoy's bootstrap. It shares the metadata with n, and has no locality
// if n has none.
func (n Node) Proto() *corev3.Node {
	p := &corev3.Node{Id: n.ID, Cluster: n.Cluster, Metadata: n.Struct}
	if n.Locality != (mesh.Locality{}) {
		p.Locality = &corev3.Locality{Region: n.Locality.Region, Zone: n.Locality.Zone, SubZone: n.Locality.SubZone}
	}
	return p
}

// localityFromLabels returns the locality in the pod's label topology.istio.io/locality, or in its
// older name istio-locality. Labels cannot contain slashes, so a value without them is split at
// dots. Without both it uses the node labels of region, zone and sub-zone that Kubernetes copies to
// pods. Without any label the result is zero.
func localityFromLabels(labels map[string]string) mesh.Locality {
	text := cmp.Or(labels["topology.istio.io/locality"], labels["istio-locality"])
	if text == "" {
		return mesh.Locality{
			Region:  labels["topology.kubernetes.io/region"],
			Zone:    labels["topology.kubernetes.io/zone"],
			SubZone: labels["topology.istio.io/subzone"],
		}
	}
	if !strings.Contains(text, "/") {
		text = strings.ReplaceAll(text, ".", "/")
	}
	return mesh.ParseLocality(text)
}
