package push

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// ID identifies the stream: "name.namespace" of the proxy, "-" and a counter.
func (c *Client) ID() string { return c.id }

// Request applies a request of the proxy, including ACKs and NACKs, to the stream's protocol
// machine, and carries out the resulting actions (applyEvent). It logs the request at debug level.
// After the stream has ended it does nothing else.
func (c *Client) Request(r stream.Request) {
	if c.env.log.Enabled(context.Background(), slog.LevelDebug) {
		c.env.log.Debug("ADS:"+api.ShortType(r.TypeURL)+": REQ "+c.id, "nonce", r.Nonce, "version", r.Version,
			"rejected", r.Rejected, "names", len(r.Names), "subscribe", len(r.Subscribe),
			"unsubscribe", len(r.Unsubscribe), "held", r.Held.Len())
	}
	c.applyEvent(r)
}

// Next waits for the next response and returns it. An offer that arrives while it waits is applied
// first. After writing the response, the caller must call Sent before it calls Next again. It
// returns ErrClosed after Close, ErrInternal after a panic, a ProtocolError, or, if no response is
// ready, the error of ctx when that ends.
func (c *Client) Next(ctx context.Context) (*stream.Send, error) {
	for {
		if o := c.mailbox.Swap(nil); o != nil {
			c.acceptOffer(o)
		}
		c.mu.Lock()
		out, ended := c.out, c.ended
		c.out = nil
		c.mu.Unlock()
		switch {
		case ended != nil:
			return nil, ended
		case out != nil:
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.wake.C():
		}
	}
}

// acceptOffer replaces the ResourceSnapshot of the stream by the offered one, applies it to the
// machine and measures how long the offer waited. The proxy must then also answer the offered
// changes; if the stream has ended, it counts for them as disconnected. It also ends refusals
// (NACKs) of which the new ResourceSnapshot has no resource in the refused version.
func (c *Client) acceptOffer(o *offer) {
	c.mu.Lock()
	if c.ended == nil {
		c.resources, c.offered = o.resources, o
		if c.changed.IsZero() {
			c.changed, c.sending = o.changed, false
		}
		c.answer.await(o.changes, &c.env.changes)
	} else {
		c.env.changes.addDisconnected(o.changes)
	}
	c.mu.Unlock()
	c.env.metrics.Queued(c.env.clock.Now().Sub(o.made))
	c.applyEvent(stream.Ready{Resources: o.resources})
	c.env.nacks.endOutdated(c.id, o.resources)
}

// Sent records in metrics and log that the response s of Next was written, with its size in bytes
// and the time that writing took. It stores the present time as SentAt of the type. Then the
// machine may prepare the next response. Incremental responses with endpoints are logged at debug
// level.
func (c *Client) Sent(s *stream.Send, bytes int, took time.Duration) {
	n := s.Resources()
	c.env.metrics.Sent(s.TypeURL, n, bytes, took)
	level, what := slog.LevelInfo, "PUSH"
	if !s.First {
		what = "PUSH INC"
		if s.TypeURL == api.EndpointType {
			level = slog.LevelDebug
		}
	}
	if c.env.log.Enabled(context.Background(), level) {
		c.env.log.Log(context.Background(), level, fmt.Sprintf("%s: %s for node:%s.%s resources:%d removed:%d size:%s",
			api.ShortType(s.TypeURL), what, c.node.Name, c.node.Namespace, n, len(s.Removed), byteCount(bytes)),
			"nonce", s.Nonce, "version", s.Version)
	}
	c.mu.Lock()
	if c.sent == nil {
		c.sent = map[string]time.Time{}
	}
	c.sent[s.TypeURL] = c.env.clock.Now()
	c.mu.Unlock()
	c.applyEvent(stream.Sent{})
}

// byteCount formats a size as istiod's logs do: "434B", "6.8kB". It uses units of 1,000, up to MB.
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

// Close ends the stream: Next returns ErrClosed, its NACKs and its secret subscription end, and the
// rollout no longer waits for it. It also logs the end and counts the stream as disconnected. The
// proxy keeps its configuration. Further calls do nothing.
func (c *Client) Close() {
	if !c.unregister() {
		return
	}
	c.endSession(ErrClosed)
	c.env.events.add(rollout.Disconnected{Client: &c.handle})
	c.secrets.reportClosed()
	c.env.nacks.endAll(c.id)
	c.env.metrics.Connected(-1, c.node.Metadata.IstioVersion)
	c.env.log.Info("ADS: "+c.id+" terminated", "lasted", c.env.clock.Now().Sub(c.connected))
}
