package stream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// modelClient is a client that follows the protocol with Envoy's behaviour. Clusters warm until
// they get endpoints, and delay the ACKs of CDS meanwhile. Endpoints, routes and extensions that
// are not subscribed to are ignored. Listeners subscribe to the routes and extensions that they
// refer to. Resources whose body contains "bad" are refused, and the others of the same response
// are accepted. With LDS its agent requests the name table, and does not acknowledge an empty one.
type modelClient struct {
	mode Mode
	// onDemand is set for a client that names clusters (want) beside its wildcard when it first calls them.
	onDemand bool
	cache    [typeCount]map[string]*resource.Resource
	// warming clusters wait for endpoints; hanging ones warm although they have them; fresh ones
	// were never warm.
	warming, hanging, fresh map[string]bool
	// brought are endpoints of an earlier stream. emptied clusters had theirs replaced by a
	// placeholder.
	brought, emptied map[string]bool
	want             [typeCount]map[string]bool // names, of the types that are requested by name

	asked    [typeCount]bool // on this stream
	started  bool            // all clusters were warm once
	blank    bool            // connected with neither endpoints nor listeners
	nonce    [typeCount]string
	held     []Request // delayed ACKs of CDS
	toServer []Request
	broken   string // the first protocol violation that it saw
	// taken are clusters that the first full state on a SotW stream removed; refused are clusters
	// that were refused and do not exist.
	taken, refused map[string]bool
}

// order returns the order in which Envoy requests types.
func (*modelClient) order() []int { return []int{cds, eds, lds, rds, ecds} }

func newModelClient(mode Mode) *modelClient {
	c := &modelClient{
		mode: mode, warming: map[string]bool{}, hanging: map[string]bool{}, fresh: map[string]bool{},
		brought: map[string]bool{}, emptied: map[string]bool{}, taken: map[string]bool{}, refused: map[string]bool{},
	}
	for i := range c.cache {
		c.cache[i], c.want[i] = map[string]*resource.Resource{}, map[string]bool{}
	}
	return c
}

// connect opens a stream with the resources that the client has.
func (c *modelClient) connect() {
	c.asked, c.nonce = [typeCount]bool{}, [typeCount]string{}
	c.toServer, c.held = nil, nil
	clear(c.taken)
	for name, r := range c.cache[eds] {
		c.brought[name] = !r.Placeholder
	}
	c.blank = len(c.cache[eds])+len(c.cache[lds]) == 0
	if len(c.cache[cds]) == 0 && !c.started {
		c.ask(cds)
		return
	}
	for _, at := range c.order() {
		switch {
		case at == cds && len(c.warming) > 0 && c.started: // requested when they are warm
		case at == cds || len(c.want[at]) > 0 || at == lds && c.started:
			c.ask(at)
		}
	}
}

// ask sends the first request for a type on this stream.
func (c *modelClient) ask(at int) {
	c.asked[at] = true
	r := Request{TypeURL: pushOrder[at].URL}
	if c.mode == SotW {
		r.Names = names(c.want[at])
		if len(c.cache[at]) > 0 {
			r.Version = "v"
		}
	} else {
		r.Subscribe = names(c.want[at])
		if at == cds && len(r.Subscribe) > 0 {
			r.Subscribe = append(r.Subscribe, "*")
		}
		held := map[string]string{}
		for name, res := range c.cache[at] {
			if pushOrder[at].Wildcard || c.want[at][name] {
				held[name] = res.Version
			}
		}
		r.Held = HoldingsOf(held)
	}
	c.toServer = append(c.toServer, r)
	if at == lds {
		c.asked[nds] = true
		c.toServer = append(c.toServer, Request{TypeURL: pushOrder[nds].URL})
	}
}

// interest sends the server a changed subscription.
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
		c.toServer = append(
			c.toServer,
			Request{TypeURL: pushOrder[at].URL, Nonce: c.nonce[at], Version: "v", Names: names(c.want[at])},
		)
	default:
		c.toServer = append(c.toServer, Request{TypeURL: pushOrder[at].URL, Subscribe: add, Unsubscribe: drop})
	}
}

// receive processes a response.
func (c *modelClient) receive(s Send) {
	at := envoyTypes.positionOf(s.TypeURL)
	if at == nds && s.Resources() == 0 {
		c.broken = "an empty response that is not acknowledged"
	}
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
				c.refused[r.Name] = c.refused[r.Name] || at == cds && c.cache[cds][r.Name] == nil
				continue
			}
			c.apply(at, r)
		}
	}
	gone := s.Removed
	if c.mode == SotW && pushOrder[at].Wildcard {
		for name := range c.cache[at] {
			if !seen[name] {
				gone = append(gone, name)
				c.taken[name] = c.taken[name] || at == cds && s.First
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
		delete(c.taken, r.Name)
		delete(c.refused, r.Name)
		if ownEndpoints(r) == "" {
			c.warm(r.Name)
			break
		}
		if old == nil {
			c.fresh[r.Name] = true
		}
		if old == nil || old.Version != r.Version {
			c.warming[r.Name] = true
			delete(c.hanging, r.Name)
		}
	case eds:
		if !c.want[eds][r.Name] {
			return
		}
		switch {
		case !r.Placeholder:
			delete(c.emptied, r.Name)
		case c.brought[r.Name] && !c.warming[r.Name]: // a warming cluster waits even for an empty assignment
			c.emptied[r.Name] = true
		}
		delete(c.brought, r.Name)
		c.feed(r.Name)
	case rds, ecds:
		if !c.want[at][r.Name] {
			return
		}
	}
	c.cache[at][r.Name] = r
}

// feed ends a cluster's wait for endpoints.
func (c *modelClient) feed(name string) {
	if cluster := c.cache[cds][name]; cluster != nil && c.warming[name] && strings.Contains(string(cluster.Body), "hang") {
		c.hanging[name] = true
		return
	}
	c.warm(name)
}

func (c *modelClient) warm(cluster string) {
	delete(c.warming, cluster)
	delete(c.fresh, cluster)
	delete(c.hanging, cluster)
}

// unhang finishes the warming of hanging clusters.
func (c *modelClient) unhang() {
	for name := range c.hanging {
		c.warm(name)
	}
	c.flush()
}

func (c *modelClient) remove(at int, name string) {
	if at == ecds || at == eds && c.mode == SotW || at == nds {
		c.broken = fmt.Sprintf("%q of type %d is removed", name, at)
	}
	delete(c.cache[at], name)
	switch at {
	case cds:
		c.warm(name)
		delete(c.emptied, name)
	case eds: // a cluster keeps its current endpoints
		c.feed(name)
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

// subscribe computes the subscriptions from clusters and listeners.
func (c *modelClient) subscribe() {
	var clusters, listed []string
	for _, r := range c.cache[cds] {
		if n := ownEndpoints(r); n != "" {
			clusters = append(clusters, n)
		}
	}
	for _, l := range c.cache[lds] {
		listed = append(listed, refs(l)...)
	}
	for at, list := range map[int][]string{eds: clusters, rds: prefixed("r", listed), ecds: prefixed("x", listed)} {
		list = sortedNames(list)
		have := names(c.want[at])
		c.interest(at, SubtractNames(list, have), SubtractNames(have, list))
	}
}

// flush sends the ACKs that were delayed until clusters were warm.
func (c *modelClient) flush() {
	if len(c.warming) > 0 {
		if !c.started { // before its first start it delays nothing
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

// dangling returns the clusters that may receive requests now, and that do not exist, were never
// warm or have lost their endpoints.
func (c *modelClient) dangling() []string {
	var list []string
	for _, at := range []int{lds, rds, ecds} {
		for _, r := range c.cache[at] {
			for _, cluster := range prefixed("c", refs(r)) {
				if c.onDemand && at != lds {
					if c.emptied[cluster] { // otherwise requests wait until it exists and is warm
						list = append(list, cluster)
					}
				} else if c.started && (c.cache[cds][cluster] == nil || c.fresh[cluster] || c.emptied[cluster]) {
					list = append(list, cluster)
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
