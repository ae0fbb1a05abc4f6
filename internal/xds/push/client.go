package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Client is one connected stream. Requests, responses and Close may each come from a goroutine of their own.
type Client struct {
	p         *Pusher
	id        string
	proxy     *mesh.Proxy
	mode      stream.Mode
	peer      string
	connected time.Time

	// Pusher.mu guards class; unsuspended, the Key before EnvoyFilters were suspended, nil if it is the class's; and suspensions,
	// nil if no EnvoyFilters of the class were refused.
	class       *class
	unsuspended *view.Key
	suspensions *suspensions
	told        subscription
	// unkeyed says that its Key could not be found in the newest turn, so that it is looked for in the next. Pusher.mu guards it.
	unkeyed bool

	mailbox atomic.Pointer[offer] // the newest World not taken yet
	wake    chan struct{}         // holds one token when there may be something for Next

	mu      sync.Mutex
	machine *stream.Machine
	world   *stream.World
	out     *stream.Send         // for Next; the machine makes one at a time
	sent    map[string]time.Time // when the newest response of each type was written
	shut    error
	// changed is when the oldest change was published that the proxy has not answered for yet; zero: none, or nothing
	// was sent for it.
	changed time.Time
	sending bool
}

// offer is a World in a mailbox.
type offer struct {
	world   *stream.World
	changed time.Time // when the change behind it was published; zero: none
	made    time.Time
}

// ErrClosed is why Next gives nothing more after Close.
var ErrClosed = errors.New("the stream is closed")

// ProtocolError is how a client broke the protocol, or which limit it exceeded.
type ProtocolError struct {
	Reason string
	Limit  bool // a limit was exceeded
}

// Error gives the reason.
func (e ProtocolError) Error() string { return e.Reason }

// Connect adds a stream of a proxy. peer is its network address, for people. It must be closed in the end.
// Streams of one node id are independent of each other: during a hot restart a proxy has two.
func (p *Pusher) Connect(proxy *mesh.Proxy, mode stream.Mode, peer string) *Client {
	c := &Client{
		p: p, proxy: proxy, mode: mode, peer: peer, connected: p.clock.Now(), wake: make(chan struct{}, 1),
		machine: stream.New(stream.Options{Mode: mode, Intern: p.names.intern, Names: p.limits}),
	}
	defer c.tellBegin()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	c.id = proxy.Name + "." + proxy.Namespace + "-" + strconv.FormatUint(p.ids, 10)
	p.clients[c] = struct{}{}
	for _, a := range proxy.Addresses {
		if p.addresses[a] == nil {
			p.addresses[a] = map[*Client]struct{}{}
		}
		p.addresses[a][c] = struct{}{}
	}
	if p.snapshot != nil {
		if key, ok := p.keyFor(p.snapshot, proxy); ok {
			p.place(c, key)
		}
	}
	p.metrics.Connected(1, proxy.Metadata.IstioVersion)
	p.log.Info("ADS: new connection for node:"+c.id, "id", proxy.ID, "peer", peer, "mode", mode.String())
	return c
}

// Close takes the stream off. What was sent stays with the proxy.
func (c *Client) Close() {
	p := c.p
	p.mu.Lock()
	_, open := p.clients[c]
	delete(p.clients, c)
	for _, a := range c.proxy.Addresses {
		if delete(p.addresses[a], c); len(p.addresses[a]) == 0 {
			delete(p.addresses, a)
		}
	}
	from := c.class
	p.displace(c)
	p.moveVote(c, from, nil)
	if s := c.suspensions; s != nil {
		p.enforceSuspensions(s, p.leaveSuspensions(c))
	}
	delete(p.gate.servers, c)
	delete(p.easing.servers, c)
	delete(p.easing.behind, c)
	p.relax(p.clock.Now())
	p.mu.Unlock()
	if !open {
		return
	}
	c.mu.Lock()
	c.stepMachine(stream.Close{})
	c.shut, c.out, c.world = ErrClosed, nil, nil
	c.mu.Unlock()
	c.mailbox.Store(nil)
	c.rouse()
	c.tellEnd()
	p.nacks.gone(c.id, p.metrics)
	p.metrics.Connected(-1, c.proxy.Metadata.IstioVersion)
	p.log.Info("ADS: "+c.id+" terminated", "lasted", p.clock.Now().Sub(c.connected))
}

// ID names the stream: "name.namespace" of the proxy, "-" and a counter.
func (c *Client) ID() string { return c.id }

// Request takes in what the proxy asks for or answers.
func (c *Client) Request(r stream.Request) {
	if c.p.log.Enabled(context.Background(), slog.LevelDebug) {
		c.p.log.Debug("ADS:"+api.ShortType(r.TypeURL)+": REQ "+c.id, "nonce", r.Nonce, "version", r.Version, "rejected", r.Rejected,
			"names", len(r.Names), "subscribe", len(r.Subscribe), "unsubscribe", len(r.Unsubscribe), "held", r.Held.Len())
	}
	c.step(r)
}

// offer puts a World in the mailbox, in place of one that was not taken yet.
func (c *Client) offer(w *stream.World, changed time.Time) {
	o := &offer{world: w, changed: changed, made: c.p.clock.Now()}
	if old := c.mailbox.Swap(o); old != nil && !old.changed.IsZero() && (changed.IsZero() || old.changed.Before(changed)) {
		c.mailbox.CompareAndSwap(o, &offer{world: w, changed: old.changed, made: old.made})
	}
	c.rouse()
}

func (c *Client) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Next gives the next response to write, and waits for it. Sent must be called when it was written, before Next is called
// again. The error is the context's, ErrClosed, or a ProtocolError.
func (c *Client) Next(ctx context.Context) (*stream.Send, error) {
	for {
		if o := c.mailbox.Swap(nil); o != nil {
			c.take(o)
		}
		c.mu.Lock()
		out, shut := c.out, c.shut
		c.out = nil
		c.mu.Unlock()
		switch {
		case shut != nil:
			return nil, shut
		case out != nil:
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.wake:
		}
	}
}

func (c *Client) take(o *offer) {
	c.mu.Lock()
	if c.shut == nil {
		c.world = o.world
		if c.changed.IsZero() {
			c.changed, c.sending = o.changed, false
		}
	}
	c.mu.Unlock()
	c.p.metrics.Queued(c.p.clock.Now().Sub(o.made))
	c.step(stream.Ready{World: o.world})
	c.p.nacks.outdated(c.id, o.world, c.p.metrics)
}

// Sent says that the last response of Next was written: its size in bytes, and how long it took.
func (c *Client) Sent(s *stream.Send, bytes int, took time.Duration) {
	n := s.Resources()
	c.p.metrics.Sent(s.TypeURL, n, bytes, took)
	level, what := slog.LevelInfo, "PUSH"
	if !s.First {
		what = "PUSH INC"
		if s.TypeURL == api.EndpointType {
			level = slog.LevelDebug
		}
	}
	if c.p.log.Enabled(context.Background(), level) {
		c.p.log.Log(context.Background(), level, fmt.Sprintf("%s: %s for node:%s.%s resources:%d removed:%d size:%s",
			api.ShortType(s.TypeURL), what, c.proxy.Name, c.proxy.Namespace, n, len(s.Removed), byteCount(bytes)), "nonce", s.Nonce, "version", s.Version)
	}
	c.mu.Lock()
	if c.sent == nil {
		c.sent = map[string]time.Time{}
	}
	c.sent[s.TypeURL] = c.p.clock.Now()
	c.mu.Unlock()
	c.step(stream.Sent{})
}

// byteCount writes a size as operators of Istio know it: "434B", "6.8kB".
func byteCount(n int) string {
	size, unit := float64(n)/1000, "kB"
	if n < 1000 {
		return strconv.Itoa(n) + "B"
	}
	if size >= 1000 {
		size, unit = size/1000, "MB"
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + unit
}

// step feeds the machine and sees to what it wants done.
func (c *Client) step(e stream.Event) {
	c.mu.Lock()
	if c.shut != nil {
		c.mu.Unlock()
		return
	}
	actions := c.stepMachine(e)
	if c.shut != nil { // it has panicked
		c.mu.Unlock()
		return
	}
	sent, world := false, c.world
	var ack *stream.Ack
	took := false // everything of the type
	acknowledged := false
	for _, a := range actions {
		switch a := a.(type) {
		case stream.Send:
			c.out, c.sending, sent = &a, true, true
		case stream.Shut:
			c.shut, sent = ProtocolError{a.Reason, a.Limit}, true
		case stream.Ack:
			if c.votes() && c.p.count.awaited(a.TypeURL) {
				counted := a // a copy, so that other ACKs need no memory
				ack, took = &counted, c.machine.Took(a.TypeURL)
			}
		}
	}
	var mended []string // types
	if r, ok := e.(stream.Request); ok && len(r.Unsubscribe) > 0 && c.p.nacks.stands(c.id) {
		mended = c.machine.Taken() // it may have given up what it refused
	}
	if c.p.count.gated.Load() && c.mailbox.Load() == nil {
		acknowledged = c.machine.Converged()
	}
	var converged time.Time
	if !c.changed.IsZero() && c.machine.Converged() {
		if c.sending {
			converged = c.changed
		}
		c.changed = time.Time{}
	}
	c.mu.Unlock()

	if sent {
		c.rouse()
	}
	c.tell(e)
	if !converged.IsZero() {
		c.p.metrics.Converged(c.p.clock.Now().Sub(converged))
	}
	for _, a := range actions {
		c.note(a)
	}
	for _, typeURL := range mended {
		c.p.nacks.mended(c.id, typeURL, c.p.metrics)
	}
	if ack != nil {
		c.p.accepted(c, *ack, world, took)
	}
	if acknowledged {
		c.p.acknowledged(c, world)
	}
}

// acknowledged notes that a client has answered for all of a World while the gate is closed.
func (p *Pusher) acknowledged(c *Client, w *stream.World) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served(c, w)
}

// note sees to the actions that concern others.
func (c *Client) note(a stream.Action) {
	p := c.p
	switch a := a.(type) {
	case stream.Ack:
		p.metrics.Acked(a.TypeURL)
		p.nacks.mended(c.id, a.TypeURL, p.metrics)
	case stream.Nack:
		n := c.refusal(a)
		p.nacks.add(n)
		p.refuse(c, n)
		p.metrics.Refused(n)
		p.log.Warn("ADS:"+api.ShortType(a.TypeURL)+": ACK ERROR "+c.id, "resources", n.Resources, "message", a.Message)
		c.endOutdated(n)
	case stream.Stale:
		p.metrics.ExpiredNonce(a.TypeURL)
	case stream.Late:
		p.metrics.Late(a.TypeURL)
		p.log.Warn("ADS:"+api.ShortType(a.TypeURL)+": sent to "+c.id+" though it has not shown that it has the clusters", "resources", a.Names, "clusters", a.Clusters)
	case stream.Unknown:
		p.log.Warn("ADS: unknown type", "connection", c.id, "type", a.TypeURL)
	case stream.Want:
		p.look(c, a)
	}
}

// endOutdated ends a refusal that came too late: of what the client was sent before, and is not to have any more. No later
// response of the type may follow that would end it.
func (c *Client) endOutdated(n Nack) {
	if len(n.blamed()) == 0 {
		return
	}
	c.mu.Lock()
	world := c.world
	c.mu.Unlock()
	if world != nil {
		c.p.nacks.outdated(c.id, world, c.p.metrics)
	}
}

// look has names looked up for a client's class.
func (p *Pusher) look(c *Client, w stream.Want) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.class == nil {
		return
	}
	for _, pr := range c.class.producers {
		if pr.gen.TypeURL == w.TypeURL {
			p.want(pr, w.Names, false)
		}
	}
}

// subscribed gives the names of a type that the client asked for. The list must not be changed.
func (c *Client) subscribed(typeURL string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Names(typeURL)
}
