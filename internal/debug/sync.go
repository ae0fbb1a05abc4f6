package debug

import (
	"slices"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// SyncStatus is the state of one proxy as syncz has it.
type SyncStatus struct {
	ClusterID            string                    `json:"cluster_id,omitempty"`
	Proxy                string                    `json:"proxy,omitempty"`
	ProxyType            string                    `json:"proxy_type,omitempty"`
	IstioVersion         string                    `json:"istio_version,omitempty"`
	ClusterSent          string                    `json:"cluster_sent,omitempty"`
	ClusterAcked         string                    `json:"cluster_acked,omitempty"`
	ListenerSent         string                    `json:"listener_sent,omitempty"`
	ListenerAcked        string                    `json:"listener_acked,omitempty"`
	RouteSent            string                    `json:"route_sent,omitempty"`
	RouteAcked           string                    `json:"route_acked,omitempty"`
	EndpointSent         string                    `json:"endpoint_sent,omitempty"`
	EndpointAcked        string                    `json:"endpoint_acked,omitempty"`
	ExtensionConfigSent  string                    `json:"extensionconfig_sent,omitempty"`
	ExtensionConfigAcked string                    `json:"extensionconfig_acked,omitempty"`
	Resources            map[string]ResourceStatus `json:"resources,omitempty"`
}

// ResourceStatus is what was sent of one type, by nonce, and what became of it.
type ResourceStatus struct {
	Sent      string    `json:"sent,omitempty"`
	Acked     string    `json:"acked,omitempty"`
	SentTime  time.Time `json:"sentTime,omitzero"`
	LastError string    `json:"lastError,omitempty"`
	// Ours: Unanswered responses, resources that are gone and that the proxy may still use (Lingering), and those kept back
	// until the proxy has shown that it has the clusters that they lead to (Waiting).
	Unanswered int      `json:"unanswered,omitempty"`
	Lingering  int      `json:"lingering,omitempty"`
	Waiting    []string `json:"waiting,omitempty"`
}

func newSyncStatus(c push.Connection) SyncStatus {
	s := SyncStatus{
		ClusterID: string(c.Proxy.ClusterID), Proxy: name(c.Proxy), ProxyType: string(c.Proxy.Type),
		IstioVersion: c.Proxy.Metadata.IstioVersion, Resources: map[string]ResourceStatus{},
	}
	for _, w := range c.Types {
		r := ResourceStatus{
			Sent: w.SentNonce, Acked: w.AckedNonce, SentTime: w.SentAt, LastError: w.Message,
			Unanswered: w.Unanswered, Lingering: w.Lingering, Waiting: w.Waiting,
		}
		s.Resources[w.TypeURL] = r
		switch api.ShortType(w.TypeURL) {
		case "CDS":
			s.ClusterSent, s.ClusterAcked = r.Sent, r.Acked
		case "LDS":
			s.ListenerSent, s.ListenerAcked = r.Sent, r.Acked
		case "RDS":
			s.RouteSent, s.RouteAcked = r.Sent, r.Acked
		case "EDS":
			s.EndpointSent, s.EndpointAcked = r.Sent, r.Acked
		case "ECDS":
			s.ExtensionConfigSent, s.ExtensionConfigAcked = r.Sent, r.Acked
		}
	}
	return s
}

func (p *Pages) syncz(q question) (answer, error) {
	namespace := q.Get("namespace")
	list := []SyncStatus{}
	for _, c := range p.connected(q.caller) {
		if namespace == "" || c.Proxy.Namespace == namespace {
			list = append(list, newSyncStatus(c))
		}
	}
	return written(q, list)
}

// Syncz gives the state of the proxies of the streams as istioctl proxy-status asks for it over xDS (type URL
// istio.io/debug/syncz): one message for each proxy that the caller may see.
func Syncz(list []push.Connection, caller Caller) []*statusv3.ClientConfig {
	var out []*statusv3.ClientConfig
	for _, c := range list {
		if !caller.sees(c.Proxy.Namespace) {
			continue
		}
		x := &statusv3.ClientConfig{Node: &corev3.Node{Id: name(c.Proxy), Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{}}}}
		for key, value := range map[string]string{
			"CLUSTER_ID": string(c.Proxy.ClusterID), "NAMESPACE": c.Proxy.Namespace, "ISTIO_VERSION": c.Proxy.Metadata.IstioVersion,
		} {
			if value != "" {
				x.Node.Metadata.Fields[key] = structpb.NewStringValue(value)
			}
		}
		for _, w := range c.Types {
			x.GenericXdsConfigs = append(x.GenericXdsConfigs, genericConfig(c, w))
		}
		slices.SortFunc(x.GenericXdsConfigs, func(a, b *statusv3.ClientConfig_GenericXdsConfig) int { return strings.Compare(a.TypeUrl, b.TypeUrl) })
		out = append(out, x)
	}
	return out
}

func genericConfig(c push.Connection, w push.Watch) *statusv3.ClientConfig_GenericXdsConfig {
	at := w.SentAt
	if at.IsZero() {
		at = c.ConnectedAt // istioctl shows an age
	}
	g := &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: w.TypeURL, LastUpdated: timestamppb.New(at), ConfigStatus: statusv3.ConfigStatus_STALE}
	switch {
	case w.Message != "":
		g.ConfigStatus = statusv3.ConfigStatus_ERROR
		g.ErrorState = &adminv3.UpdateFailureState{LastUpdateAttempt: g.LastUpdated, Details: w.Message}
	case w.SentNonce == "":
		g.ConfigStatus = statusv3.ConfigStatus_NOT_SENT
	case w.SentNonce == w.AckedNonce:
		g.ConfigStatus = statusv3.ConfigStatus_SYNCED
	}
	return g
}
