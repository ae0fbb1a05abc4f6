package push

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Nack is a refusal by a proxy.
type Nack struct {
	Time time.Time
	// Connection is the stream's ID.
	Connection string
	Proxy      *mesh.Proxy
	TypeURL    string
	// Nonce and Version are of the response that was refused, Message is the proxy's error, as stream.Nack has it.
	Nonce, Version, Message string
	// Resources are those that the message names; none if it names none.
	Resources []Refused
	// candidates are all that the refusal may be about.
	candidates []Refused
	// Standing says that the proxy has taken no later response of the type, and is still there.
	Standing bool
}

// Refused is a resource in a Nack.
type Refused struct {
	Name, Version string
	// From are the objects that shaped it.
	From []config.Key
}

func (c *Client) refusal(a stream.Nack) Nack {
	n := Nack{
		Time: c.p.clock.Now(), Connection: c.id, Proxy: c.proxy, TypeURL: a.TypeURL,
		Nonce: a.Nonce, Version: a.Version, Message: a.Message, Standing: true,
	}
	n.Resources, n.candidates = refused(a.Resources), refused(a.Sent)
	return n
}

func refused(list []*resource.Resource) []Refused {
	var out []Refused
	for _, r := range list {
		out = append(out, Refused{Name: r.Name, Version: r.Version, From: r.From})
	}
	return out
}

// blamed are the resources that the message names, or else all that it may be about.
func (n *Nack) blamed() []Refused {
	if len(n.Resources) > 0 {
		return n.Resources
	}
	return n.candidates
}

// Of returns the part of the message that is about a resource. It returns the whole message if it has no such part: then it is
// about all resources that it names.
//
// Envoy refuses several listeners with "Error adding/updating listener(s) NAME: why", then a line "NAME: why" for each of the
// others. gRPC writes `resource "NAME": why`, and ";" with a line break between them. A reason may have several lines.
func (n *Nack) Of(name string) string {
	if _, list, ok := strings.Cut(n.Message, "listener(s) "); ok {
		if _, why, ok := strings.Cut("\n"+list, "\n"+name+": "); ok {
			return strings.TrimSpace(n.untilOther(why))
		}
	}
	if _, why, ok := strings.Cut(n.Message, fmt.Sprintf("resource %q: ", name)); ok {
		why, _, _ = strings.Cut(why, ";\nresource \"")
		return strings.TrimSpace(why)
	}
	return n.Message
}

// untilOther returns the text up to the line that begins the part about another of the refused resources.
func (n *Nack) untilOther(text string) string {
	for _, r := range n.blamed() {
		text, _, _ = strings.Cut(text, "\n"+r.Name+": ")
	}
	return text
}

// nackLog keeps the last refusals.
type nackLog struct {
	mu       sync.Mutex
	list     []Nack // oldest first
	standing int
}

// maxNacks bounds how many refusals are remembered. Those that do not stand any more go first.
const maxNacks = 1000

func (l *nackLog) add(n Nack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == maxNacks {
		i := max(0, slices.IndexFunc(l.list, func(n Nack) bool { return !n.Standing }))
		if l.list[i].Standing {
			l.standing--
		}
		l.list = slices.Delete(l.list, i, i+1)
	}
	l.list = append(l.list, n)
	l.standing++
}

// stands says whether a refusal of the stream does.
func (l *nackLog) stands(connection string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standing > 0 && slices.ContainsFunc(l.list, func(n Nack) bool { return n.Standing && n.Connection == connection })
}

// mended notes that a stream has taken a response of the type.
func (l *nackLog) mended(connection, typeURL string, m Metrics) {
	l.end(func(n *Nack) bool { return n.Connection == connection && n.TypeURL == typeURL }, m)
}

// outdated notes that a stream is to have a World in which nothing is as it refused it. What it was sent before, it may
// keep to itself: Envoy does not always say that it wants an extension no longer.
func (l *nackLog) outdated(connection string, w *stream.World, m Metrics) {
	l.end(func(n *Nack) bool {
		return n.Connection == connection && !slices.ContainsFunc(n.blamed(), func(r Refused) bool {
			return slices.ContainsFunc(w.Shelves(n.TypeURL), func(s *stream.Shelf) bool {
				now := s.Set().Get(r.Name)
				return now != nil && now.Version == r.Version
			})
		})
	}, m)
}

// gone notes that a stream has ended.
func (l *nackLog) gone(connection string, m Metrics) {
	l.end(func(n *Nack) bool { return n.Connection == connection }, m)
}

func (l *nackLog) end(which func(*Nack) bool, m Metrics) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standing == 0 {
		return
	}
	for i := range l.list {
		if n := &l.list[i]; n.Standing && which(n) {
			n.Standing = false
			l.standing--
			m.Mended(*n)
		}
	}
}

// Nacks gives the last refusals, the newest first.
func (p *Pusher) Nacks() []Nack {
	p.nacks.mu.Lock()
	list := slices.Clone(p.nacks.list)
	p.nacks.mu.Unlock()
	slices.Reverse(list)
	return list
}
