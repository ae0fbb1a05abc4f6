package server

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// parseNode returns the proxy that a node describes, whose Envoy has the named extensions. It returns
// an error if the ID, the namespace or an address is missing or invalid, or a name is too long or not
// printable. The proxy's addresses are the one in the ID, then INSTANCE_IPS without duplicates.
// NAMESPACE in the metadata overrides the namespace of the ID, and aliases replace the cluster ID.
// The result shares strings with the node, and no other memory.
func (s *Server) parseNode(node *corev3.Node, extensions []string) (*mesh.Proxy, error) {
	if node.GetId() == "" {
		return nil, errors.New("node.id is missing in the first request")
	}
	p, err := mesh.ParseNodeID(node.Id)
	if err != nil {
		return nil, err
	}
	p.Metadata = s.parseMetadata(node)
	for _, ip := range p.Metadata.InstanceIPs {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, fmt.Errorf("node %q: INSTANCE_IPS: %w", node.Id, err)
		}
		if a = a.Unmap(); !slices.Contains(p.Addresses, a) {
			p.Addresses = append(p.Addresses, a)
		}
	}
	if p.Metadata.Namespace != "" {
		p.Namespace = p.Metadata.Namespace
	}
	if p.Namespace == "" {
		return nil, fmt.Errorf("node %q: neither the ID (name.namespace) nor NAMESPACE in the metadata has the namespace",
			node.Id)
	}
	p.Cluster = node.Cluster
	p.ClusterID = mesh.ClusterID(p.Metadata.ClusterID)
	if is, ok := s.aliases[p.ClusterID]; ok {
		p.ClusterID = is
	}
	p.Network = mesh.Network(p.Metadata.Network)
	p.Labels = p.Metadata.Labels
	if l := node.Locality; l != nil {
		p.Locality = mesh.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
	}
	if v := node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		p.EnvoyVersion = mesh.EnvoyVersion{Major: v.GetMajorNumber(), Minor: v.GetMinorNumber(), Patch: v.GetPatch()}
	}
	p.Extensions = extensions
	if err := checkTexts(&p); err != nil {
		return nil, err
	}
	return &p, nil
}

// checkTexts returns an error if a text of the node is too long or not printable. The error has the
// node's ID, any one such field and its text, shortened. The cluster, locality, namespace, cluster
// ID, network and service account are checked, because they are logged and become parts of keys.
// The ID is not checked here.
func checkTexts(p *mesh.Proxy) error {
	for field, s := range map[string]string{
		"node.cluster": p.Cluster, "node.locality.region": p.Locality.Region, "node.locality.zone": p.Locality.Zone,
		"node.locality.sub_zone": p.Locality.SubZone, "NAMESPACE": p.Namespace, "CLUSTER_ID": string(p.ClusterID),
		"NETWORK": string(p.Network), "SERVICE_ACCOUNT": p.Metadata.ServiceAccount,
	} {
		if err := mesh.CheckNodeText(field, s); err != nil {
			return fmt.Errorf("node %q: %w", p.ID, err)
		}
	}
	return nil
}

// parseMetadata returns the metadata of a node, zero if it has none. Fields of an unexpected type
// are logged and ignored.
func (s *Server) parseMetadata(node *corev3.Node) mesh.NodeMetadata {
	m, bad := mesh.NodeMetadataOf(node.Metadata)
	if len(bad) > 0 {
		s.log.Warn("ADS: node metadata fields of an unexpected type ignored", "node", node.Id, "fields", bad)
	}
	return m
}
