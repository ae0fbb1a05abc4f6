package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Source. All fields are optional.
type Options struct {
	// Node describes this control plane to the server.
	Node Node
	// Identity is this control plane's certificate, for tlsSettings.mode ISTIO_MUTUAL.
	Identity Identity
	// Backoff is the pause before the first reconnect (default 250 ms). It doubles up to MaxBackoff
	// (default 15 s). Each pause has a random length between half and all of that, so that clients
	// do not reconnect to a restarted server at the same time.
	Backoff, MaxBackoff time.Duration
	// Patience is how long a connected server may leave a type unanswered before that is a Problem
	// (default 10 s). The source keeps waiting.
	Patience time.Duration
	Clock    clock.Clock    // default: the system clock
	Random   func() float64 // in [0,1); default: math/rand
	Logger   *slog.Logger   // if nil, nothing is logged
	// Recovery confines a panic while an object is decoded to that object. If nil, the panic
	// propagates.
	Recovery *recovery.Recorder
}

// Source is a config source that reads from an xDS server.
type Source struct {
	o        Options
	address  Address
	security security
	// unreadable is the Problem of the connection, or nil.
	unreadable atomic.Pointer[unreadable]
}

// unreadable is why a server cannot be read, and since when.
type unreadable struct {
	since  time.Time
	reason string
}

var _ source.Source = (*Source)(nil)

// New returns a source for an entry of meshConfig.configSources with an address xds://host:port,
// which does not connect yet. The error names the invalid field of the entry. It logs warnings of
// subscribedResources, which is ignored, and of insecureSkipVerify.
func New(c *meshconfig.ConfigSource, o Options) (*Source, error) {
	a, err := ParseAddress(c.GetAddress())
	if err == nil && a.Scheme != SchemeXDS {
		err = errors.New("want xds://host:port")
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.GetAddress(), err)
	}
	host, _, _ := net.SplitHostPort(a.Host) // valid after ParseAddress
	s := &Source{o: o.withDefaults(), address: a}
	if s.security, err = newSecurity(c.GetTlsSettings(), host, o.Identity); err != nil {
		return nil, fmt.Errorf("tlsSettings: %w", err)
	}
	if len(c.GetSubscribedResources()) > 0 {
		// Istio ignores this field too.
		s.o.Logger.Warn("subscribedResources is not followed: all kinds are asked for", "source", a.Text)
	}
	if s.security.skipVerify {
		s.o.Logger.Warn("insecureSkipVerify: anybody on the way can pose as this config source", "source", a.Text)
	}
	return s, nil
}

// withDefaults returns the options with defaults for fields that are not set. They are 250 ms for
// Backoff, 15 s for MaxBackoff, 10 s for Patience, the system's clock, and math/rand. The default
// Logger discards all. Node, Identity and Recovery have none.
func (o Options) withDefaults() Options {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Backoff, 250*time.Millisecond)
	def(&o.MaxBackoff, 15*time.Second)
	def(&o.Patience, 10*time.Second)
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Name returns the address as configured.
func (s *Source) Name() string { return s.address.Text }

// Unreadable returns since when the server cannot be read, and the reason. It returns zero values
// if it can be read, and after the end of a connection until an attempt to connect has failed. It
// may be called by any goroutine.
func (s *Source) Unreadable() (since time.Time, reason string) {
	if u := s.unreadable.Load(); u != nil {
		return u.since, u.reason
	}
	return time.Time{}, ""
}

// Waiting returns the reason why the server cannot be read, or "" as Unreadable does. It may be
// called by any goroutine.
func (s *Source) Waiting() string {
	_, reason := s.Unreadable()
	return reason
}

// Run sends the objects of the server, type by type as it answers, then Synced after the last type,
// and then a batch per change, until the context ends; then it returns nil. After a lost connection
// it reconnects with backoff, and the last state stays in use until the server answers again.
//
// The scope of an object's Problems is its key, that of a type its URL, and that of the connection
// the source's name. Config.Origin is the source's name too.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r := newRun(s, out)
	backoff := retry.NewBackoff(s.o.Backoff, s.o.MaxBackoff)
	for ctx.Err() == nil {
		began := s.o.Clock.Now()
		if answered, lost := r.connect(ctx); ctx.Err() == nil {
			if s.o.Clock.Now().Sub(began) > s.o.MaxBackoff {
				backoff.Reset()
			}
			pause := s.addJitter(backoff.NextBackOff())
			r.reportDisconnect(ctx, lost, answered, pause)
			select {
			case <-s.o.Clock.After(pause):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// addJitter returns a random duration between half of d and d.
func (s *Source) addJitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(s.o.Random()*float64(d/2))
}
