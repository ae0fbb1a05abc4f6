package server

import (
	"fmt"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// controlPlane returns the ControlPlane for debug responses, or nil if d is nil.
func controlPlane(d Debug) *corev3.ControlPlane {
	if d == nil {
		return nil
	}
	return &corev3.ControlPlane{Identifier: d.Identifier()}
}

// newestConnections returns the newest stream of each proxy, by node ID, in a namespace, or of all
// proxies if namespace is "". A proxy has two streams during a hot restart, or when a connection
// was lost unnoticed. They are in the order of the first stream of each proxy.
func (s *Server) newestConnections(namespace string) []push.Connection {
	var list []push.Connection
	at := map[string]int{}
	for _, c := range s.Connections() {
		if namespace != "" && c.Proxy.Namespace != namespace {
			continue
		}
		if i, ok := at[c.Proxy.ID]; !ok {
			at[c.Proxy.ID] = len(list)
			list = append(list, c)
		} else if c.ConnectedAt.After(list[i].ConnectedAt) {
			list[i] = c
		}
	}
	return list
}

// clientConfigs returns a ClientConfig with the sync status of each subscribed type for each proxy
// in a namespace, or for all if namespace is "". It uses a proxy's newest stream. A type that was
// never sent has the time of the connection. Resources are named "name.namespace", the form that
// istioctl prints and accepts.
func (s *Server) clientConfigs(namespace string) ([]named, error) {
	var list []named
	for _, c := range s.newestConnections(namespace) {
		name := c.Proxy.Name + "." + c.Proxy.Namespace
		m := &statusv3.ClientConfig{Node: &corev3.Node{Id: name, Metadata: nodeMetadata(c)}}
		for _, w := range c.Types {
			at := w.SentAt
			if at.IsZero() {
				at = c.ConnectedAt // istioctl shows the age, which would be decades for a zero time
			}
			g := &statusv3.ClientConfig_GenericXdsConfig{
				TypeUrl:      w.TypeURL,
				ConfigStatus: syncStatus(w),
				VersionInfo:  w.SentVersion,
				LastUpdated:  timestamppb.New(at),
			}
			if w.Message != "" {
				g.ErrorState = &adminv3.UpdateFailureState{Details: w.Message, VersionInfo: w.SentVersion}
			}
			m.GenericXdsConfigs = append(m.GenericXdsConfigs, g)
		}
		a, err := anypb.New(m)
		if err != nil {
			return nil, status.Error(codes.Internal, fmt.Sprintf("state of proxy %q: %v", name, err))
		}
		list = append(list, named{name, a})
	}
	return list, nil
}

// nodeMetadata returns the cluster, namespace and version of a proxy, as istioctl shows them. Empty
// values are left out.
func nodeMetadata(c push.Connection) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for k, v := range map[string]string{
		"CLUSTER_ID": string(c.Proxy.ClusterID), "NAMESPACE": c.Proxy.Namespace,
		"ISTIO_VERSION": c.Proxy.Metadata.IstioVersion,
	} {
		if v != "" {
			fields[k] = structpb.NewStringValue(v)
		}
	}
	return &structpb.Struct{Fields: fields}
}

// syncStatus returns the status of a type as istiod computes it from the last response and its
// answer: ERROR after a rejection, NOT_SENT, SYNCED or STALE. ERROR precedes NOT_SENT; STALE is a
// sent response without an acknowledgement of its nonce.
func syncStatus(w push.Watch) statusv3.ConfigStatus {
	switch {
	case w.Message != "":
		return statusv3.ConfigStatus_ERROR
	case w.SentNonce == "":
		return statusv3.ConfigStatus_NOT_SENT
	case w.SentNonce == w.AckedNonce:
		return statusv3.ConfigStatus_SYNCED
	}
	return statusv3.ConfigStatus_STALE
}

// configDump returns the configuration that a proxy was sent on its newest stream, a resource for
// each part of Envoy's ConfigDump. name is "web-1.shop", the node ID, or the ID of the Connection.
// It returns nil without an error if the proxy is not connected here, or is outside namespace (""
// permits all): it may be connected to another replica. If the dump fails, it returns an Internal
// status.
func (s *Server) configDump(name, namespace string) ([]named, error) {
	var found *push.Connection
	for _, c := range s.Connections() {
		switch {
		case namespace != "" && c.Proxy.Namespace != namespace:
		case name != c.ID && name != c.Proxy.ID && name != c.Proxy.Name+"."+c.Proxy.Namespace:
		case found == nil || c.ConnectedAt.After(found.ConnectedAt):
			found = &c
		}
	}
	if found == nil {
		return nil, nil
	}
	parts, err := s.debug.ConfigDump(*found)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "config dump of proxy %q: %v", found.Proxy.ID, err)
	}
	var list []named
	for _, p := range parts {
		list = append(list, named{strings.TrimPrefix(p.TypeUrl, "type.googleapis.com/"), p})
	}
	return list, nil
}
