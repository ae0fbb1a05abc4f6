package debug

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// SyncStatus is the synchronization state of one proxy in the form of syncz.
type SyncStatus struct {
	ClusterID            string                    `json:"cluster_id,omitempty"`
	Proxy                string                    `json:"proxy,omitempty"`
	ProxyType            string                    `json:"proxy_type,omitempty"`
	IstioVersion         string                    `json:"istio_version,omitempty"`
	EnvoyVersion         string                    `json:"envoy_version,omitempty"` // specific to meshpilot
	ConnectedAt          time.Time                 `json:"connected_at,omitzero"`   // specific to meshpilot
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
	// The following fields are specific to meshpilot. UpToDate is set if nothing was sent because the
	// proxy lacks nothing: an agent that connects again has the current resource. Unanswered is the
	// number of responses without an ACK or NACK. Lingering is the number of removed resources that
	// the proxy may still use. Waiting are the resources that are held back until the proxy is known
	// to have the clusters that they reference. Quarantined are the resources of the proxy that are
	// in quarantine, and the suspended EnvoyFilters as "EnvoyFilter/namespace/name", sorted: the
	// proxy acknowledged what it is served in their place.
	UpToDate    bool     `json:"upToDate,omitempty"`
	Unanswered  int      `json:"unanswered,omitempty"`
	Lingering   int      `json:"lingering,omitempty"`
	Waiting     []string `json:"waiting,omitempty"`
	Quarantined []string `json:"quarantined,omitempty"`
}

// NewSyncStatus returns the synchronization state of a stream's proxy. withheld are the quarantined
// resources that are withheld from it. Other types than CDS, LDS, RDS, EDS and ECDS are in
// Resources only.
func NewSyncStatus(c push.Connection, withheld []push.Quarantined) SyncStatus {
	s := SyncStatus{
		ClusterID: string(c.Proxy.ClusterID), Proxy: DisplayName(c.Proxy), ProxyType: string(c.Proxy.Type),
		IstioVersion: c.Proxy.Metadata.IstioVersion, ConnectedAt: c.ConnectedAt, Resources: map[string]ResourceStatus{},
	}
	if c.Proxy.EnvoyVersion != (mesh.EnvoyVersion{}) {
		s.EnvoyVersion = c.Proxy.EnvoyVersion.String()
	}
	for _, w := range c.Types {
		r := ResourceStatus{
			Sent: w.SentNonce, Acked: w.AckedNonce, SentTime: w.SentAt, LastError: w.Message,
			UpToDate: w.NeedsNoResponse, Unanswered: w.Unanswered, Lingering: w.Lingering, Waiting: w.Waiting,
			Quarantined: quarantinedNames(w, withheld),
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

// quarantinedNames returns the names of the resources and suspended EnvoyFilters of one type that
// are withheld from a stream, sorted and without duplicates. Resources to which w does not
// subscribe are left out.
func quarantinedNames(w push.Watch, withheld []push.Quarantined) []string {
	var names []string
	for _, q := range withheld {
		switch {
		case q.TypeURL != w.TypeURL:
		case q.Suspended != (config.Key{}):
			names = append(names, q.Suspended.String())
		case w.Covers(q.Name):
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// RefusedText returns the errors of the last NACKs, and the names of the resources that are
// withheld because proxies rejected them. They are in the order of type URLs, separated by "; ",
// and equal neighbors occur once. It returns "" if there are none.
func (s SyncStatus) RefusedText() string {
	var parts []string
	for _, url := range slices.Sorted(maps.Keys(s.Resources)) {
		r := s.Resources[url]
		if r.LastError != "" {
			parts = append(parts, strings.Join(strings.Fields(r.LastError), " "))
		}
		parts = append(parts, r.Quarantined...)
	}
	return strings.Join(slices.Compact(parts), "; ")
}

// syncz serves the synchronization state of all proxies that the caller may see, or with
// ?namespace= of one namespace.
func (p *Pages) syncz(q question) (answer, error) {
	namespace := q.Get("namespace")
	withheld := p.Withheld()
	list := []SyncStatus{}
	for _, c := range p.visibleConnections(q.caller) {
		if namespace == "" || c.Proxy.Namespace == namespace {
			list = append(list, NewSyncStatus(c, withheld[c.ID]))
		}
	}
	return jsonAnswer(q, list)
}

// Withheld returns the quarantined resources that are withheld from each stream, by the ID of the
// stream.
func (p *Pages) Withheld() map[string][]push.Quarantined {
	withheld := map[string][]push.Quarantined{}
	for _, q := range p.Proxies.Quarantine() {
		for _, id := range q.Affected {
			withheld[id] = append(withheld[id], q)
		}
	}
	return withheld
}

// SyncState returns the state of a type in istioctl's terms: ERROR if the proxy has reported an
// error, NOT SENT before the first response unless the proxy needs none, SYNCED if the nonces of
// the last sent and the last acknowledged response are equal, and otherwise STALE. QUARANTINED
// takes the place of SYNCED if the proxy is served other resources than the configuration asks for,
// because proxies rejected them.
func (r ResourceStatus) SyncState() string {
	switch {
	case r.LastError != "":
		return "ERROR"
	case r.Sent == "" && !r.UpToDate:
		return "NOT SENT"
	case r.Sent == r.Acked && len(r.Quarantined) > 0:
		return "QUARANTINED"
	case r.Sent == r.Acked:
		return "SYNCED"
	default:
		return "STALE"
	}
}
