package debug

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// SyncStatus is the synchronization state of one proxy in the form of syncz.
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

// ResourceStatus contains the nonces of the last sent and the last acknowledged response of one
// type.
type ResourceStatus struct {
	Sent      string    `json:"sent,omitempty"`
	Acked     string    `json:"acked,omitempty"`
	SentTime  time.Time `json:"sentTime,omitzero"`
	LastError string    `json:"lastError,omitempty"`
	// The following fields are specific to meshpilot. Unanswered is the number of responses without
	// an ACK or NACK. Lingering is the number of removed resources that the proxy may still use.
	// Waiting are the resources that are held back until the proxy is known to have the clusters
	// that they reference.
	Unanswered int      `json:"unanswered,omitempty"`
	Lingering  int      `json:"lingering,omitempty"`
	Waiting    []string `json:"waiting,omitempty"`
}

// newSyncStatus returns the synchronization state of a stream's proxy.
func newSyncStatus(c push.Connection) SyncStatus {
	s := SyncStatus{
		ClusterID: string(c.Proxy.ClusterID), Proxy: displayName(c.Proxy), ProxyType: string(c.Proxy.Type),
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

// syncz serves the synchronization state of all proxies, or with ?namespace= of one namespace.
func (p *Pages) syncz(q question) (answer, error) {
	namespace := q.Get("namespace")
	list := []SyncStatus{}
	for _, c := range p.visibleConnections(q.caller) {
		if namespace == "" || c.Proxy.Namespace == namespace {
			list = append(list, newSyncStatus(c))
		}
	}
	return jsonAnswer(q, list)
}
