package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/resource"
)

// modelClient is a client by the book, with Envoy's habits: clusters warm until they get endpoints, and hold back the ACKs
// of CDS while they do; endpoints and routes that are not subscribed to are ignored; listeners subscribe to the routes that
// they refer to; resources whose body holds "bad" are refused, and the others of the same response are taken.
type modelClient struct {
	mode  Mode
	cache [len(pushOrder)]map[string]*resource.Resource
	// warming clusters wait for endpoints; fresh ones were never warm.
	warming map[string]bool
	fresh   map[string]bool
	want    [len(pushOrder)]map[string]bool // EDS and RDS

	asked    [len(pushOrder)]bool // on this stream
	started  bool                 // all clusters were warm once
	nonce    [len(pushOrder)]string
	held     []Request // ACKs of CDS held back
	late     bool      // CDS was left out when a stream began
	toServer []Request
	broken   string // what it saw that must not be
}

func newModelClient(mode Mode) *modelClient {
	c := &modelClient{mode: mode, warming: map[string]bool{}, fresh: map[string]bool{}}
	for i := range c.cache {
		c.cache[i] = map[string]*resource.Resource{}
		c.want[i] = map[string]bool{}
	}
	return c
}

// connect opens a stream with what the client has.
func (c *modelClient) connect() {
	c.asked, c.nonce = [len(pushOrder)]bool{}, [len(pushOrder)]string{}
	c.toServer, c.held = nil, nil
	if len(c.cache[cds]) == 0 && !c.started {
		c.ask(cds)
		return
	}
	for _, at := range []int{cds, eds, lds, rds} {
		switch {
		case at == cds && len(c.warming) > 0 && c.started: // asked for when they are warm
			c.late = true
		case at == cds || len(c.want[at]) > 0 || at == lds && c.started:
			c.ask(at)
		}
	}
}

// ask sends the first request of a type on this stream.
func (c *modelClient) ask(at int) {
	c.asked[at] = true
	r := Request{TypeURL: pushOrder[at].url}
	if c.mode == SotW {
		r.Names = names(c.want[at])
		c.toServer = append(c.toServer, r)
		return
	}
	r.Subscribe = names(c.want[at])
	for name, res := range c.cache[at] {
		if r.Held == nil {
			r.Held = map[string]string{}
		}
		if at == cds || at == lds || c.want[at][name] {
			r.Held[name] = res.Version
		}
	}
	c.toServer = append(c.toServer, r)
}

// interest tells the server of a changed subscription.
func (c *modelClient) interest(at int, add, drop []string) {
	if len(add)+len(drop) == 0 {
		return
	}
	for _, n := range add {
		c.want[at][n] = true
	}
	for _, n := range drop {
		delete(c.want[at], n)
		delete(c.cache[at], n)
	}
	switch {
	case !c.asked[at]:
		c.ask(at)
	case c.mode == SotW:
		c.toServer = append(c.toServer, Request{TypeURL: pushOrder[at].url, Nonce: c.nonce[at], Version: "v", Names: names(c.want[at])})
	default:
		c.toServer = append(c.toServer, Request{TypeURL: pushOrder[at].url, Subscribe: add, Unsubscribe: drop})
	}
}

// receive takes a response.
func (c *modelClient) receive(s Send) {
	at := place(s.TypeURL)
	c.nonce[at] = s.Nonce
	seen := map[string]bool{}
	var refused []string
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			if seen[r.Name] {
				c.broken = fmt.Sprintf("%q is there twice", r.Name)
			}
			seen[r.Name] = true
			if strings.Contains(string(r.Body), "bad") {
				refused = append(refused, r.Name)
				continue
			}
			c.apply(at, r)
		}
	}
	gone := s.Removed
	if c.mode == SotW && (at == cds || at == lds) {
		for name := range c.cache[at] {
			if !seen[name] {
				gone = append(gone, name)
			}
		}
	}
	for _, name := range gone {
		if seen[name] {
			c.broken = fmt.Sprintf("%q is there and removed", name)
		}
		c.remove(at, name)
	}
	c.answer(at, s, refused)
	c.subscribe()
	c.flush()
}

func (c *modelClient) apply(at int, r *resource.Resource) {
	old := c.cache[at][r.Name]
	switch at {
	case cds:
		if ownEndpoints(r) == "" {
			break
		}
		if old == nil {
			c.fresh[r.Name] = true
		}
		if old == nil || old.Version != r.Version {
			c.warming[r.Name] = true
		}
	case eds:
		if !c.want[eds][r.Name] {
			return
		}
		delete(c.warming, r.Name)
		delete(c.fresh, r.Name)
	case rds:
		if !c.want[rds][r.Name] {
			return
		}
	}
	c.cache[at][r.Name] = r
}

func (c *modelClient) remove(at int, name string) {
	delete(c.cache[at], name)
	if at == cds {
		delete(c.warming, name)
		delete(c.fresh, name)
	}
}

func (c *modelClient) answer(at int, s Send, refused []string) {
	r := Request{TypeURL: s.TypeURL, Nonce: s.Nonce, Version: "v"}
	if len(refused) > 0 {
		r.Rejected, r.Message = true, "refused: "+strings.Join(refused, ", ")
	}
	if c.mode == SotW {
		r.Names = names(c.want[at])
	}
	if at == cds {
		c.held = append(c.held, r)
		return
	}
	c.toServer = append(c.toServer, r)
}

// subscribe derives what to subscribe to from clusters and listeners.
func (c *modelClient) subscribe() {
	var clusters, routes []string
	for _, r := range c.cache[cds] {
		if n := ownEndpoints(r); n != "" {
			clusters = append(clusters, n)
		}
	}
	for _, l := range c.cache[lds] {
		routes = append(routes, refs(l)...)
	}
	for at, list := range map[int][]string{eds: clusters, rds: routes} {
		list = sorted(list)
		have := names(c.want[at])
		c.interest(at, without(list, have), without(have, list))
	}
}

// flush sends what waits for warm clusters.
func (c *modelClient) flush() {
	if len(c.warming) > 0 {
		if !c.started { // before its first start it holds nothing back
			c.toServer, c.held = append(c.toServer, c.held...), nil
		}
		return
	}
	c.started = true
	if c.mode == SotW && len(c.held) > 1 { // one request, with the last nonce and any error among them
		last := c.held[len(c.held)-1]
		for _, r := range c.held {
			if r.Rejected {
				last.Rejected, last.Message = true, r.Message
			}
		}
		c.held = []Request{last}
	}
	c.toServer, c.held = append(c.toServer, c.held...), nil
	for _, at := range []int{cds, lds} {
		if !c.asked[at] {
			c.ask(at)
		}
	}
}

// check gives what is wrong with what the client would do with a request now, "" for nothing: a route to a cluster that is
// not there, or never had its endpoints. A client that came while something warmed has not asked for clusters yet, and
// may be sent routes to ones that it will only learn of; it is excused until that is past.
func (c *modelClient) check() string {
	if c.broken != "" {
		return c.broken
	}
	wrong := c.dangling()
	if !c.late {
		return wrong
	}
	c.late = wrong != "" || c.nonce[cds] == ""
	return ""
}

func (c *modelClient) dangling() string {
	for name, r := range c.cache[rds] {
		for _, cluster := range refs(r) {
			if c.cache[cds][cluster] == nil {
				return fmt.Sprintf("route %s refers to cluster %s, which is not there", name, cluster)
			}
			if c.fresh[cluster] && c.started {
				return fmt.Sprintf("route %s refers to cluster %s, which is not warm", name, cluster)
			}
		}
	}
	return ""
}

// refs reads the names that a body refers to: "3;a,b".
func refs(r *resource.Resource) []string {
	_, list, _ := strings.Cut(string(r.Body), ";")
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func names(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
