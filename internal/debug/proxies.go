package debug

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Proxies gives the connected proxies as plain values, and what they refused.
type Proxies interface {
	// Connections gives a copy of the state of every open stream, sorted by ID.
	Connections() []push.Connection
	// Nacks gives the last refusals, the newest first.
	Nacks() []push.Nack
}

// Nack is one refusal by a proxy (nackz).
type Nack struct {
	Time    time.Time `json:"time"`
	Proxy   string    `json:"proxy"`
	Type    string    `json:"type"`
	Message string    `json:"message"`
	// Resources are those that the message names.
	Resources []Refused `json:"resources,omitempty"`
	// Standing says that the proxy has taken no later response of the type.
	Standing bool `json:"standing"`
}

// Refused is a resource of a Nack, with the objects that it came from.
type Refused struct {
	Name string       `json:"name"`
	From []config.Key `json:"from,omitempty"`
}

func watch(c push.Connection, typeURL string) push.Watch {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w
		}
	}
	return push.Watch{}
}

// name is how people call a proxy: "reviews-v1-abc.default".
func name(p *mesh.Proxy) string { return p.Name + "." + p.Namespace }

// SyncStatus is the state of one proxy as istioctl proxy-status reads it.
type SyncStatus struct {
	ClusterID     string `json:"cluster_id,omitempty"`
	Proxy         string `json:"proxy,omitempty"`
	ProxyType     string `json:"proxy_type,omitempty"`
	IstioVersion  string `json:"istio_version,omitempty"`
	ClusterSent   string `json:"cluster_sent,omitempty"`
	ClusterAcked  string `json:"cluster_acked,omitempty"`
	ListenerSent  string `json:"listener_sent,omitempty"`
	ListenerAcked string `json:"listener_acked,omitempty"`
	RouteSent     string `json:"route_sent,omitempty"`
	RouteAcked    string `json:"route_acked,omitempty"`
	EndpointSent  string `json:"endpoint_sent,omitempty"`
	EndpointAcked string `json:"endpoint_acked,omitempty"`
}

func (p *pages) syncz(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	list := []SyncStatus{}
	for _, c := range p.Proxies.Connections() {
		if namespace != "" && c.Proxy.Namespace != namespace {
			continue
		}
		cds, lds, rds, eds := watch(c, api.ClusterType), watch(c, api.ListenerType), watch(c, api.RouteType), watch(c, api.EndpointType)
		list = append(list, SyncStatus{
			ClusterID: string(c.Proxy.ClusterID), Proxy: name(c.Proxy), ProxyType: string(c.Proxy.Type), IstioVersion: c.Proxy.Metadata.IstioVersion,
			ClusterSent: cds.SentNonce, ClusterAcked: cds.AckedNonce, ListenerSent: lds.SentNonce, ListenerAcked: lds.AckedNonce,
			RouteSent: rds.SentNonce, RouteAcked: rds.AckedNonce, EndpointSent: eds.SentNonce, EndpointAcked: eds.AckedNonce,
		})
	}
	writeJSON(w, list)
}

// adsClient is a stream in istiod's form of adsz.
type adsClient struct {
	ConnectionID string              `json:"connectionId"`
	ConnectedAt  time.Time           `json:"connectedAt"`
	Address      string              `json:"address"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Locality     string              `json:"locality,omitempty"`
	Watches      map[string][]string `json:"watches"`
}

func (p *pages) adsz(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("push") == "true" {
		p.Push()
	}
	out := struct {
		Total   int         `json:"totalClients"`
		Clients []adsClient `json:"clients"`
	}{Clients: []adsClient{}}
	for _, c := range p.Proxies.Connections() {
		x := adsClient{
			ConnectionID: c.ID, ConnectedAt: c.ConnectedAt, Address: c.Peer, Labels: c.Proxy.Labels,
			Locality: c.Proxy.Locality.String(), Watches: map[string][]string{},
		}
		for _, t := range c.Types {
			x.Watches[t.TypeURL] = slices.Concat([]string{}, t.Names)
		}
		out.Clients = append(out.Clients, x)
	}
	out.Total = len(out.Clients)
	writeJSON(w, out)
}

func (p *pages) connections(w http.ResponseWriter, _ *http.Request) {
	type row struct {
		ConnectionID string    `json:"connectionId"`
		ConnectedAt  time.Time `json:"connectedAt"`
		Address      string    `json:"address"`
	}
	out := struct {
		Total   int   `json:"totalClients"`
		Clients []row `json:"clients"`
	}{Clients: []row{}}
	for _, c := range p.Proxies.Connections() {
		out.Clients = append(out.Clients, row{c.ID, c.ConnectedAt, c.Peer})
	}
	out.Total = len(out.Clients)
	writeJSON(w, out)
}

func (p *pages) nackz(w http.ResponseWriter, _ *http.Request) {
	list := []Nack{}
	for _, n := range p.Proxies.Nacks() {
		out := Nack{Time: n.Time, Proxy: name(n.Proxy), Type: api.ShortType(n.TypeURL), Message: n.Message, Standing: n.Standing}
		for _, r := range n.Resources {
			out.Resources = append(out.Resources, Refused{Name: r.Name, From: r.From})
		}
		list = append(list, out)
	}
	writeJSON(w, list)
}

// find finds the stream of a proxy by its connection id, node id, "name.namespace" or "name"; the newest if there are several.
func (p *pages) find(w http.ResponseWriter, r *http.Request) (push.Connection, bool) {
	id := r.URL.Query().Get("proxyID")
	if id == "" {
		http.Error(w, "give the proxy: ?proxyID=name.namespace", http.StatusBadRequest)
		return push.Connection{}, false
	}
	var found *push.Connection
	for _, c := range p.Proxies.Connections() {
		if id != c.ID && id != c.Proxy.ID && id != name(c.Proxy) && !strings.HasPrefix(name(c.Proxy), id+".") {
			continue
		}
		if found == nil || c.ConnectedAt.After(found.ConnectedAt) {
			found = &c
		}
	}
	if found == nil {
		http.Error(w, "no proxy "+id+" is connected to this replica", http.StatusNotFound)
		return push.Connection{}, false
	}
	return *found, true
}
