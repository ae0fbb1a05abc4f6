package debug

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// The responses of istiod for a request without a proxyID and for a proxy that is not connected.
const (
	noProxyGiven = "You must provide a proxyID in the query string\n"
	notHere      = "Proxy not connected to this Pilot instance. It may be connected to another instance.\n"
)

// watchedType returns the state of a type in a stream. It returns false if the stream has not
// requested the type.
func watchedType(c push.Connection, typeURL string) (push.Watch, bool) {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w, true
		}
	}
	return push.Watch{}, false
}

// DisplayName returns the name that users know a proxy by: "reviews-v1-abc.default".
func DisplayName(p *mesh.Proxy) string { return p.Name + "." + p.Namespace }

// visibleConnections returns the streams of the proxies that the caller may see, sorted by ID.
func (p *Pages) visibleConnections(c Caller) []push.Connection {
	return slices.DeleteFunc(
		p.Proxies.Connections(),
		func(x push.Connection) bool { return !c.CanRead(x.Proxy.Namespace) },
	)
}

// findConnection returns the stream that ?proxyID= names. It returns a Refusal if the parameter is
// missing or no stream matches.
func (p *Pages) findConnection(q question) (push.Connection, error) {
	c, given, err := p.lookUp(q)
	if err == nil && !given {
		err = Refusal{http.StatusBadRequest, noProxyGiven}
	}
	return c, err
}

// lookUp returns the stream that ?proxyID= names. given is false if the parameter is missing. It
// returns a Refusal if no stream matches. Proxies that the caller may not see are treated as not
// connected.
func (p *Pages) lookUp(q question) (c push.Connection, given bool, err error) {
	id := q.Get("proxyID")
	if id == "" {
		return c, false, nil
	}
	c, found := p.FindConnection(id, q.caller)
	if !found {
		return c, true, Refusal{http.StatusNotFound, notHere}
	}
	return c, true, nil
}

// FindConnection returns the stream whose ID, or whose proxy's node ID or "name.namespace", equals
// id. If there is none, the proxy's name must equal id, and otherwise, as in istiod, the stream's
// ID must contain it. So an empty id finds any stream. Of several matches of one kind it returns
// the newest. The second result is false if nothing matches that the caller may see.
func (p *Pages) FindConnection(id string, caller Caller) (push.Connection, bool) {
	list := slices.DeleteFunc(p.Proxies.StreamStates(), func(s push.StreamState) bool {
		return !caller.CanRead(s.Proxy.Namespace)
	})
	for _, is := range []func(push.StreamState) bool{
		func(s push.StreamState) bool {
			return id == s.ID || id == s.Proxy.ID || id == DisplayName(s.Proxy)
		},
		func(s push.StreamState) bool { return id == s.Proxy.Name },
		func(s push.StreamState) bool { return strings.Contains(s.ID, id) },
	} {
		var found *push.StreamState
		for i := range list {
			if is(list[i]) && (found == nil || list[i].ConnectedAt.After(found.ConnectedAt)) {
				found = &list[i]
			}
		}
		if found != nil {
			return p.Proxies.Connection(found.ID)
		}
	}
	return push.Connection{}, false
}

// adsClient is a stream in istiod's form of adsz. The page connections uses it too, without the
// optional fields.
type adsClient struct {
	ConnectionID string              `json:"connectionId"`
	ConnectedAt  time.Time           `json:"connectedAt"`
	Address      string              `json:"address"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Metadata     *mesh.NodeMetadata  `json:"metadata,omitempty"`
	Locality     *locality           `json:"locality,omitempty"`
	Watches      map[string][]string `json:"watches,omitempty"`
}

type locality struct {
	Region  string `json:"region,omitempty"`
	Zone    string `json:"zone,omitempty"`
	SubZone string `json:"sub_zone,omitempty"`
}

type adsClients struct {
	Total   int         `json:"totalClients"`
	Clients []adsClient `json:"clients"`
}

// adsz serves the connected proxies that the caller may see, with their subscriptions, or with
// ?proxyID= only that proxy. A proxy that is not found is a Refusal. With ?push=, not empty, it
// instead requests a full push to all proxies and serves their number as text.
func (p *Pages) adsz(q question) (answer, error) {
	if q.Get("push") != "" {
		p.Push()
		return textAnswer("Pushed to " + formatCount(len(p.Proxies.Connections())) + " servers\n")
	}
	one, given, err := p.lookUp(q)
	if err != nil {
		return answer{}, err
	}
	list := []push.Connection{one}
	if !given {
		list = p.visibleConnections(q.caller)
	}
	out := adsClients{Total: len(list), Clients: []adsClient{}}
	for _, c := range list {
		x := adsClient{
			ConnectionID: c.ID, ConnectedAt: c.ConnectedAt, Address: c.Peer, Labels: c.Proxy.Labels,
			Metadata: &c.Proxy.Metadata, Watches: map[string][]string{},
		}
		if l := view.Locality(p.Snapshot(), c.Proxy); l != (mesh.Locality{}) {
			x.Locality = &locality{l.Region, l.Zone, l.SubZone}
		}
		for _, t := range c.Types {
			x.Watches[t.TypeURL] = append([]string{}, t.Names...) // not null in JSON
		}
		out.Clients = append(out.Clients, x)
	}
	return jsonAnswer(q, out)
}

// connectionsPage serves the IDs, connection times and addresses of the streams whose proxies the
// caller may see.
func (p *Pages) connectionsPage(q question) (answer, error) {
	list := p.visibleConnections(q.caller)
	out := adsClients{Total: len(list), Clients: []adsClient{}}
	for _, c := range list {
		out.Clients = append(out.Clients, adsClient{ConnectionID: c.ID, ConnectedAt: c.ConnectedAt, Address: c.Peer})
	}
	return jsonAnswer(q, out)
}

// forceDisconnect closes the stream that ?proxyID= names. It returns a Refusal if the parameter is
// missing (400), or if there is no such stream that the caller may see (404).
func (p *Pages) forceDisconnect(q question) (answer, error) {
	c, err := p.findConnection(q)
	if err != nil {
		return answer{}, err
	}
	if !p.Disconnect(c.ID) {
		return answer{}, Refusal{http.StatusNotFound, notHere}
	}
	return textAnswer("OK")
}

// cachez serves the sorted names of the generated resources that proxies hold, by type. A resource
// that several proxies share is listed once; other resources may have equal names. With ?sizes= it
// serves the total bytes per type instead. With ?clear= it changes nothing: a resource is
// regenerated when an object that it depends on changes, so there is no separate cache to clear.
func (p *Pages) cachez(q question) (answer, error) {
	if q.Get("clear") != "" {
		return textAnswer("Nothing to clear: what is held is what proxies have\n")
	}
	groups, seen := map[any]bool{}, map[*resource.Resource]bool{} // thousands of proxies share few groups of resources
	names, sizes, total := map[string][]string{}, map[string]int{}, 0
	for _, c := range p.Proxies.Connections() {
		for _, w := range c.Types {
			for _, group := range w.Groups {
				if groups[group] {
					continue
				}
				groups[group] = true
				for r := range group.Set().All() {
					if seen[r] {
						continue
					}
					seen[r] = true
					names[r.TypeURL] = append(names[r.TypeURL], r.Name)
					sizes[r.TypeURL] += len(r.Body)
					total += len(r.Body)
				}
			}
		}
	}
	if q.Get("sizes") != "" {
		out := map[string]string{"total": byteCount(total)}
		for t, n := range sizes {
			out[t] = byteCount(n)
		}
		return jsonAnswer(q, out)
	}
	for t := range names {
		slices.Sort(names[t])
	}
	return jsonAnswer(q, names)
}

// scopez serves the log scopes and their levels.
func (p *Pages) scopez(q question) (answer, error) {
	list := []obs.Scope{}
	if p.Scopes != nil {
		list = p.Scopes()
	}
	return jsonAnswer(q, list)
}

// asJSON returns v as JSON. v must be a value that can be marshalled; otherwise the result is a
// JSON string with the error.
func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal("cannot be shown: " + err.Error())
	}
	return b
}

// matchesType reports whether short identifies the type URL: "eds", "EDS" or the URL itself.
func matchesType(typeURL, short string) bool {
	return strings.EqualFold(api.ShortType(typeURL), short) || typeURL == short
}
