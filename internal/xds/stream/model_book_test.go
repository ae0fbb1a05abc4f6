package stream

import (
	"fmt"
	"slices"
	"strings"
)

// book records what the server has sent on a stream, and which resources it may send again.
type book struct {
	has    map[string]string // type and name to version
	reason map[string]bool   // may be sent although the client has it
	resume bool
	asked  [typeCount]bool
	// starting is set if endpoints may be sent again unless the client proceeds to listeners.
	starting bool

	// seconds counts the Tick events that a client could have answered in; born is when a
	// cluster was first sent.
	seconds int
	born    map[string]int
}

func newBook() book {
	return book{has: map[string]string{}, reason: map[string]bool{}, born: map[string]int{}}
}

func key(at int, name string) string { return fmt.Sprint(at, "/", name) }

func (b *book) request(r Request, mode Mode) {
	at := envoyTypes.positionOf(r.TypeURL)
	for name, v := range r.Held.All() {
		b.has[key(at, name)] = v
		b.resume = true
	}
	if !b.asked[at] {
		for _, n := range r.Names {
			b.reason[key(at, n)] = true
		}
		if at == lds && !b.asked[cds] && b.resume { // a cluster is warming: all endpoints may be sent again
			for k := range b.has {
				if strings.HasPrefix(k, key(eds, "")) {
					b.reason[k] = true
				}
			}
		}
		b.asked[at] = true
	}
	if at == eds && r.Held.Len() > 0 { // the client may have been starting
		b.starting = true
	}
	for _, n := range append(r.Subscribe, r.Names...) {
		if mode == Delta && r.Held == nil || b.has[key(at, n)] == "" || mode == SotW {
			b.reason[key(at, n)] = true
		}
	}
	for _, n := range r.Unsubscribe {
		delete(b.has, key(at, n))
	}
}

// sent records a response, and returns an error text if the response is invalid, else "".
func (b *book) sent(s Send, mode Mode) string {
	at := envoyTypes.positionOf(s.TypeURL)
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			k := key(at, r.Name)
			again := b.has[k] == r.Version
			starting := at == eds && b.starting && !b.asked[lds]
			if again && !b.reason[k] && !starting && !(mode == SotW && pushOrder[at].Wildcard) {
				return fmt.Sprintf("%s sent again, unchanged and unasked", k)
			}
			if at == cds && (!again || b.reason[k]) { // a client that requests a cluster again may have lost its endpoints
				b.reason[key(eds, r.Name)] = true
			}
			delete(b.reason, k)
			if at == cds && b.has[k] == "" {
				b.born[r.Name] = b.seconds
			}
			b.has[k] = r.Version
		}
	}
	for _, n := range s.Removed {
		delete(b.has, key(at, n))
	}
	if mode == SotW && at == cds {
		for k := range b.has {
			name, found := strings.CutPrefix(k, key(cds, ""))
			if found && !slices.ContainsFunc(s.Parts, func(p *Payload) bool {
				return slices.Contains(namesOf(p), name)
			}) {
				delete(b.has, k)
			}
		}
	}
	return ""
}

func namesOf(p *Payload) []string {
	var list []string
	for _, r := range p.Resources() {
		list = append(list, r.Name)
	}
	return list
}
