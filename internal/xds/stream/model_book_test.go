package stream

import (
	"fmt"
	"slices"
	"strings"
)

// book is what the server has sent on a stream and why it may be sent again.
type book struct {
	has    map[string]string // type and name to version
	reason map[string]bool   // may be sent though it is there
	resume bool
	asked  [len(pushOrder)]bool
	// starting are endpoints that may be sent again if the client does not go on to listeners.
	starting []string
}

func newBook() book { return book{has: map[string]string{}, reason: map[string]bool{}} }

func key(at int, name string) string { return fmt.Sprint(at, "/", name) }

func (b *book) request(r Request, mode Mode) {
	at := place(r.TypeURL)
	for name, v := range r.Held {
		b.has[key(at, name)] = v
		b.resume = true
	}
	if !b.asked[at] {
		for _, n := range r.Names {
			b.reason[key(at, n)] = true
		}
		if at == lds && !b.asked[cds] && b.resume { // something is warming: all endpoints
			for k := range b.has {
				if strings.HasPrefix(k, key(eds, "")) {
					b.reason[k] = true
				}
			}
		}
		b.asked[at] = true
	}
	if at == eds && len(r.Held) > 0 && !b.asked[lds] { // it may have been starting up
		for _, name := range r.Subscribe {
			b.starting = append(b.starting, key(at, name))
		}
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

// sent gives what is wrong with a response, "" for nothing.
func (b *book) sent(s Send, mode Mode) string {
	at := place(s.TypeURL)
	for _, p := range s.Parts {
		for _, r := range p.Resources() {
			k := key(at, r.Name)
			again := b.has[k] == r.Version
			if again && !b.reason[k] && !(slices.Contains(b.starting, k) && !b.asked[lds]) && !(mode == SotW && pushOrder[at].whole) {
				return fmt.Sprintf("%s sent again, unchanged and unasked", k)
			}
			if delete(b.reason, k); at == cds && !again {
				b.reason[key(eds, r.Name)] = true
			}
			b.has[k] = r.Version
		}
	}
	for _, n := range s.Removed {
		delete(b.has, key(at, n))
	}
	return ""
}
