package debug

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// What istiod answers about proxies that it cannot find.
const (
	noProxyGiven = "You must provide a proxyID in the query string\n"
	notHere      = "Proxy not connected to this Pilot instance. It may be connected to another instance.\n"
)

// watch gives the state of a type, and whether the stream asked for it.
func watch(c push.Connection, typeURL string) (push.Watch, bool) {
	for _, w := range c.Types {
		if w.TypeURL == typeURL {
			return w, true
		}
	}
	return push.Watch{}, false
}

// name is how people call a proxy: "reviews-v1-abc.default".
func name(p *mesh.Proxy) string { return p.Name + "." + p.Namespace }

// connected gives the streams whose proxies the caller may be shown, sorted by ID.
func (p *Pages) connected(c Caller) []push.Connection {
	return slices.DeleteFunc(p.Proxies.Connections(), func(x push.Connection) bool { return !c.sees(x.Proxy.Namespace) })
}

// find finds the stream that the question names, which it must.
func (p *Pages) find(q question) (push.Connection, error) {
	c, given, err := p.lookUp(q)
	if err == nil && !given {
		err = Refusal{http.StatusBadRequest, noProxyGiven}
	}
	return c, err
}

// lookUp finds the stream that the question names, if it names one. A proxy of a namespace that the caller may not see is
// one that is not there.
func (p *Pages) lookUp(q question) (c push.Connection, given bool, err error) {
	id := q.Get("proxyID")
	if id == "" {
		return c, false, nil
	}
	c, found := Find(p.connected(q.caller), id)
	if !found {
		return c, true, Refusal{http.StatusNotFound, notHere}
	}
	return c, true, nil
}

// Find finds a stream by its own ID, or by its proxy's node id, "name.namespace" or name. If no proxy is called so, any of
// whose ID the text is a part will do, as istiod has it. Of several streams it gives the newest.
func Find(list []push.Connection, id string) (push.Connection, bool) {
	for _, is := range []func(push.Connection) bool{
		func(c push.Connection) bool { return id == c.ID || id == c.Proxy.ID || id == name(c.Proxy) },
		func(c push.Connection) bool { return id == c.Proxy.Name },
		func(c push.Connection) bool { return strings.Contains(c.ID, id) },
	} {
		var found *push.Connection
		for i := range list {
			if is(list[i]) && (found == nil || list[i].ConnectedAt.After(found.ConnectedAt)) {
				found = &list[i]
			}
		}
		if found != nil {
			return *found, true
		}
	}
	return push.Connection{}, false
}

// adsClient is a stream in istiod's form of adsz, and without what only adsz tells, of connections.
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

func (p *Pages) adsz(q question) (answer, error) {
	if q.Get("push") != "" {
		p.Push()
		return text("Pushed to " + count(len(p.Proxies.Connections())) + " servers\n")
	}
	one, given, err := p.lookUp(q)
	if err != nil {
		return answer{}, err
	}
	list := []push.Connection{one}
	if !given {
		list = p.connected(q.caller)
	}
	out := adsClients{Total: len(list), Clients: []adsClient{}}
	for _, c := range list {
		x := adsClient{
			ConnectionID: c.ID, ConnectedAt: c.ConnectedAt, Address: c.Peer, Labels: c.Proxy.Labels,
			Metadata: &c.Proxy.Metadata, Watches: map[string][]string{},
		}
		if l := c.Proxy.Locality; l != (mesh.Locality{}) {
			x.Locality = &locality{l.Region, l.Zone, l.SubZone}
		}
		for _, t := range c.Types {
			x.Watches[t.TypeURL] = slices.Concat([]string{}, t.Names)
		}
		out.Clients = append(out.Clients, x)
	}
	return written(q, out)
}

func (p *Pages) connections(q question) (answer, error) {
	list := p.connected(q.caller)
	out := adsClients{Total: len(list), Clients: []adsClient{}}
	for _, c := range list {
		out.Clients = append(out.Clients, adsClient{ConnectionID: c.ID, ConnectedAt: c.ConnectedAt, Address: c.Peer})
	}
	return written(q, out)
}

func (p *Pages) forceDisconnect(q question) (answer, error) {
	c, err := p.find(q)
	if err != nil {
		return answer{}, err
	}
	if !p.Disconnect(c.ID) {
		return answer{}, Refusal{http.StatusNotFound, notHere}
	}
	return text("OK")
}

// cachez shows the generated resources that proxies have, each once however many have it. Nothing is kept besides: what
// depends on a changed object is made anew by itself, so there is nothing to clear.
func (p *Pages) cachez(q question) (answer, error) {
	if q.Get("clear") != "" {
		return text("Nothing to clear: what is held is what proxies have\n")
	}
	shelves, seen := map[any]bool{}, map[*resource.Resource]bool{} // thousands of proxies share few shelves
	names, sizes, total := map[string][]string{}, map[string]int{}, 0
	for _, c := range p.Proxies.Connections() {
		for _, w := range c.Types {
			for _, shelf := range w.Shelves {
				if shelves[shelf] {
					continue
				}
				shelves[shelf] = true
				for _, r := range shelf.Set().List() {
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
		return written(q, out)
	}
	for t := range names {
		slices.Sort(names[t])
	}
	return written(q, names)
}

// Scope is a log scope in the form of ControlZ.
type Scope struct {
	Name            string `json:"name"`
	Description     string `json:"description"`
	OutputLevel     string `json:"output_level"`
	StackTraceLevel string `json:"stack_trace_level"`
	LogCallers      bool   `json:"log_callers"`
}

func (p *Pages) scopez(q question) (answer, error) {
	list := []Scope{}
	if p.Scopes != nil {
		list = p.Scopes()
	}
	return written(q, list)
}

// asJSON gives a value that is known to be writable as JSON.
func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal("cannot be shown: " + err.Error())
	}
	return b
}

// typed reports whether a type URL goes by a short name: "eds", "EDS" or the URL.
func typed(typeURL, short string) bool {
	return strings.EqualFold(api.ShortType(typeURL), short) || typeURL == short
}
