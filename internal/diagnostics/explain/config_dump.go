package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// UnresolvedAddress is the placeholder for an address that only DNS can resolve (RFC 5737,
// TEST-NET-1).
const UnresolvedAddress = "192.0.2.1"

// ConfigDump is the configuration of a proxy, as Envoy or a control plane dumps it.
type ConfigDump struct {
	// Resources contain the active configuration, without the objects that it comes from.
	Resources Resources
	// HasEndpoints is set if the dump contains endpoints, which Envoy writes only on request.
	HasEndpoints bool

	node  *corev3.Node
	named map[dumpedName]*resource.Resource
}

// dumpedName identifies a resource that is subscribed by name.
type dumpedName struct{ typeURL, name string }

// ReadConfigDump reads a config_dump of Envoy (/config_dump?include_eds), or of a control plane.
// Unknown fields are ignored, and messages of unknown types keep only their type. It returns an
// error if body is no dump or has no active listener, or if a known message in it is malformed.
func ReadConfigDump(body []byte) (*ConfigDump, error) {
	var dump adminv3.ConfigDump
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true,
		Resolver: lenientTypes{protoregistry.GlobalTypes}}).Unmarshal(body, &dump); err != nil {
		return nil, fmt.Errorf("read the config dump: %w", err)
	}
	d := &ConfigDump{named: map[dumpedName]*resource.Resource{}}
	for _, section := range dump.GetConfigs() {
		m, err := section.UnmarshalNew()
		if err != nil {
			continue // of an unknown type
		}
		if err := d.addSection(m); err != nil {
			return nil, err
		}
	}
	if len(d.Resources.Listeners) == 0 {
		return nil, errors.New("the config dump has no active listeners")
	}
	d.Resources.Named = func(typeURL, name string) *resource.Resource { return d.named[dumpedName{typeURL, name}] }
	return d, nil
}

// addSection adds the active resources of a section of a dump, or sets the node of the bootstrap.
// Static routes, static endpoints and other sections are ignored; a section of endpoints sets
// HasEndpoints. Errors for malformed resources are joined, and the other resources are added.
func (d *ConfigDump) addSection(section proto.Message) error {
	var errs []error
	switch s := section.(type) {
	case *adminv3.BootstrapConfigDump:
		d.node = s.GetBootstrap().GetNode()
	case *adminv3.ListenersConfigDump:
		for _, l := range s.GetStaticListeners() {
			errs = append(errs, d.addListener(l.GetListener()))
		}
		for _, l := range s.GetDynamicListeners() {
			errs = append(errs, d.addListener(l.GetActiveState().GetListener()))
		}
	case *adminv3.ClustersConfigDump:
		for _, c := range s.GetStaticClusters() {
			errs = append(errs, d.addCluster(c.GetCluster()))
		}
		for _, c := range s.GetDynamicActiveClusters() {
			errs = append(errs, d.addCluster(c.GetCluster()))
		}
	case *adminv3.RoutesConfigDump:
		for _, r := range s.GetDynamicRouteConfigs() {
			errs = append(errs, d.addNamed(r.GetRouteConfig(), new(routev3.RouteConfiguration), api.RouteType))
		}
	case *adminv3.EndpointsConfigDump:
		d.HasEndpoints = true
		for _, e := range s.GetDynamicEndpointConfigs() {
			errs = append(errs, d.addNamed(e.GetEndpointConfig(), new(endpointv3.ClusterLoadAssignment),
				api.EndpointType))
		}
	case *adminv3.EcdsConfigDump:
		for _, e := range s.GetEcdsFilters() {
			errs = append(errs, d.addNamed(e.GetEcdsFilter(), new(corev3.TypedExtensionConfig), api.ExtensionType))
		}
	}
	return errors.Join(errs...)
}

// addListener adds a listener. It does nothing for nil, which dumps contain for a listener that is
// not active. It returns an error if the listener is malformed.
func (d *ConfigDump) addListener(packed *anypb.Any) error {
	r, err := d.newResource(packed, new(listenerv3.Listener), api.ListenerType)
	if r != nil {
		d.Resources.Listeners = append(d.Resources.Listeners, r)
	}
	return err
}

// addCluster adds a cluster. It does nothing for nil, and returns an error for a malformed one.
func (d *ConfigDump) addCluster(packed *anypb.Any) error {
	r, err := d.newResource(packed, new(clusterv3.Cluster), api.ClusterType)
	if r != nil {
		d.Resources.Clusters = append(d.Resources.Clusters, r)
	}
	return err
}

// addNamed adds a resource that is subscribed by name. m is an empty message of its type. It does
// nothing for nil, and returns an error for a malformed resource.
func (d *ConfigDump) addNamed(packed *anypb.Any, m proto.Message, typeURL string) error {
	r, err := d.newResource(packed, m, typeURL)
	if r != nil {
		d.named[dumpedName{typeURL, r.Name}] = r
	}
	return err
}

// newResource decodes packed into m, and returns it as a resource with the name in it. It returns
// nil for a nil message, and an error for a malformed one. A message without a name has the name
// "".
func (d *ConfigDump) newResource(packed *anypb.Any, m proto.Message, typeURL string) (*resource.Resource, error) {
	if packed == nil {
		return nil, nil
	}
	if err := packed.UnmarshalTo(m); err != nil {
		return nil, fmt.Errorf("read the config dump: %w", err)
	}
	name := ""
	switch x := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		name = x.GetClusterName()
	case interface{ GetName() string }:
		name = x.GetName()
	}
	return resource.FromBytes(name, typeURL, packed.GetValue()), nil
}

// Site returns what the ID of the dump's node contains about the proxy: its type and address. The
// trust domain is always cluster.local. A host is resolved to the address of the listener that
// forwards to it, else to UnresolvedAddress, which also replaces a missing address of the proxy.
func (d *ConfigDump) Site() Site {
	id := strings.Split(d.node.GetId(), "~") // TYPE~ADDRESS~NAME.NAMESPACE~DOMAIN
	own := netip.MustParseAddr(UnresolvedAddress)
	if len(id) > 1 {
		if a, err := netip.ParseAddr(id[1]); err == nil {
			own = a
		}
	}
	domain := ""
	if len(id) > 3 {
		domain = id[3]
	}
	return Site{
		IsRouter: id[0] == "router", TrustDomain: "cluster.local",
		Resolve: func(host string, port uint16) netip.Addr { return d.addressOf(host, domain, port) },
		OwnPort: func(_ string, port uint16) netip.AddrPort { return netip.AddrPortFrom(own, port) },
	}
}

// addressOf returns the address of the listener of a port that forwards connections to a cluster of
// the host. The host may be relative to domain, the proxy's DNS domain. It returns
// UnresolvedAddress if there is none, as for HTTP, whose listeners are for all addresses.
func (d *ConfigDump) addressOf(host, domain string, port uint16) netip.Addr {
	_, cluster, _ := strings.Cut(domain, ".")
	_, top, _ := strings.Cut(cluster, ".")
	all, err := d.Resources.decodeListeners()
	if err != nil {
		return netip.MustParseAddr(UnresolvedAddress) // Explain reports it
	}
	for _, suffix := range []string{"", "." + domain, "." + cluster, "." + top} {
		want := fmt.Sprintf("outbound|%d||%s", port, strings.ToLower(host)+suffix)
		for _, l := range all {
			at, ok := socketAddress(l.message.GetAddress())
			if ok && at.Port() == port && !at.Addr().IsUnspecified() && forwardsTo(l.message, want) {
				return at.Addr()
			}
		}
	}
	return netip.MustParseAddr(UnresolvedAddress)
}

// forwardsTo reports whether the encoded configuration of any network filter of a listener contains
// the name of a cluster. It ignores the default filter chain.
func forwardsTo(l *listenerv3.Listener, cluster string) bool {
	for _, chain := range l.GetFilterChains() {
		for _, f := range chain.GetFilters() {
			if strings.Contains(string(f.GetTypedConfig().GetValue()), cluster) {
				return true
			}
		}
	}
	return false
}

// lenientTypes resolves the types of messages in a dump. A type that is not linked into the
// program, as of the filters of other vendors' Envoys, is resolved to a message without fields.
type lenientTypes struct {
	protoregistry.ExtensionTypeResolver
}

// FindMessageByURL returns the type, or for an unknown one a message type of that name without
// fields. It returns NotFound if the URL has no valid name.
func (lenientTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t, err := protoregistry.GlobalTypes.FindMessageByURL(url); err == nil {
		return t, nil
	}
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	if !name.IsValid() {
		return nil, protoregistry.NotFound
	}
	parent := string(name.Parent())
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String(string(name)), Package: &parent, Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String(string(name.Name()))}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return dynamicpb.NewMessageType(file.Messages().Get(0)), nil
}

// FindMessageByName returns the linked type, or an error for an unknown one.
func (lenientTypes) FindMessageByName(n protoreflect.FullName) (protoreflect.MessageType, error) {
	return protoregistry.GlobalTypes.FindMessageByName(n)
}
