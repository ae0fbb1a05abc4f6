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

// Input is what a Node is made of.
type Input struct {
	Type        mesh.ProxyType
	Environment environment.Environment
	// Config is the effective ProxyConfig.
	Config *meshconfig.ProxyConfig
	// Labels and Annotations are those of the downward API's files; they count before those of the environment.
	Labels, Annotations map[string]string
	// Interfaces are the host's network interfaces.
	Interfaces []Interface
	// Domain is the suffix of short names, "" for NAMESPACE.svc.cluster.local.
	Domain string
	// IstioLevel is the release of Istio that the agent implements, for ISTIO_VERSION where the metadata does not have it.
	IstioLevel string
	// Version is the agent's own release, for MESHPILOT_VERSION.
	Version string
	// OutlierLogPath is where Envoy logs ejected hosts, "" for nowhere.
	OutlierLogPath string
	// WithoutIdentity says that nobody gives the workload a certificate of the mesh.
	WithoutIdentity bool
	// FilesApart is set if another server has the workload's identity, and the agent serves only secrets that are files.
	FilesApart bool
}

// Node is who a proxy is. It is immutable.
type Node struct {
	// ID is "TYPE~IP~NAME.NAMESPACE~DOMAIN".
	ID   string
	Type mesh.ProxyType
	// Domain is the suffix of names that the proxy's own are short for ("ns.svc.cluster.local").
	Domain   string
	Cluster  string
	Locality mesh.Locality
	// Addresses are the proxy's own, the one of the ID first. There is at least one.
	Addresses []netip.Addr
	// Metadata is the part that has a type; Struct is all of it, as it is sent.
	Metadata mesh.NodeMetadata
	Struct   *structpb.Struct
}

// Build makes the Node.
func Build(in Input) (Node, error) {
	env := in.Environment
	if err := errors.Join(
		required("POD_NAME", env.PodName),
		required("POD_NAMESPACE", env.PodNamespace),
	); err != nil {
		return Node{}, err
	}
	addresses := Addresses(env, in.Interfaces, ExcludedInterfaces(annotations(in)))
	meta, all, err := metadata(in, addresses)
	if err != nil {
		return Node{}, fmt.Errorf("node metadata: %w", err)
	}
	domain := cmp.Or(in.Domain, env.PodNamespace+".svc.cluster.local")
	id := strings.Join([]string{string(in.Type), addresses[0].String(), env.PodName + "." + env.PodNamespace, domain}, "~")
	if _, err := mesh.ParseNodeID(id); err != nil {
		return Node{}, err
	}
	return Node{
		ID: id, Type: in.Type, Domain: domain,
		Cluster:   serviceCluster(in.Config, meta),
		Locality:  locality(meta.Labels),
		Addresses: addresses,
		Metadata:  meta, Struct: all,
	}, nil
}

func required(name, value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("environment variable %s: must be set, it is part of the proxy's id", name)
	}
	return nil
}

// Proto gives the node as Envoy is configured with it.
func (n Node) Proto() *corev3.Node {
	p := &corev3.Node{Id: n.ID, Cluster: n.Cluster, Metadata: n.Struct}
	if n.Locality != (mesh.Locality{}) {
		p.Locality = &corev3.Locality{Region: n.Locality.Region, Zone: n.Locality.Zone, SubZone: n.Locality.SubZone}
	}
	return p
}

// locality returns the locality that the pod's labels state: topology.istio.io/locality or its older name istio-locality, else
// the labels of the node that Kubernetes copies to its pods. Labels cannot contain slashes, so dots may separate the parts.
func locality(labels map[string]string) mesh.Locality {
	text := cmp.Or(labels["topology.istio.io/locality"], labels["istio-locality"])
	if text == "" {
		return mesh.Locality{
			Region: labels["topology.kubernetes.io/region"], Zone: labels["topology.kubernetes.io/zone"], SubZone: labels["topology.istio.io/subzone"],
		}
	}
	if !strings.Contains(text, "/") {
		text = strings.ReplaceAll(text, ".", "/")
	}
	return mesh.ParseLocality(text)
}
