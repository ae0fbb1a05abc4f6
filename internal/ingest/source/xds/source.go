package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options are what a Source needs besides its place in the mesh config. All may be left out.
type Options struct {
	// Node is what the server is told about this control plane.
	Node Node
	// Identity is this control plane's own certificate, for servers with tlsSettings.mode ISTIO_MUTUAL.
	Identity Identity
	// Backoff is the pause before the first reconnect, 250 ms if zero; it doubles up to MaxBackoff, 15 s if zero. Each pause
	// is of a random length between the half and the whole, so that not all come back at once to a server that restarted.
	Backoff, MaxBackoff time.Duration
	// Patience is how long a server that takes the stream may leave a type unanswered before that is a Problem; 10 s if
	// zero. The source waits on all the same.
	Patience time.Duration
	Clock    Clock          // the system's if nil
	Random   func() float64 // in [0,1); math/rand's if nil
	Logger   *slog.Logger   // none if nil
	// Recovery confines a panic while an object is decoded to that object. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Source is a config source that is an xDS server.
type Source struct {
	o        Options
	address  Address
	security security
}

var _ source.Source = (*Source)(nil)

// New makes a source of an entry of meshConfig.configSources whose address is xds://host:port. It connects to nothing yet. The
// error names the field of the entry that is wrong.
func New(c *meshconfig.ConfigSource, o Options) (*Source, error) {
	a, err := ParseAddress(c.GetAddress())
	if err == nil && a.Scheme != SchemeXDS {
		err = errors.New("want xds://host:port")
	}
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", c.GetAddress(), err)
	}
	host, _, _ := net.SplitHostPort(a.Host) // as ParseAddress had it
	s := &Source{o: o.withDefaults(), address: a}
	if s.security, err = newSecurity(c.GetTlsSettings(), host, o.Identity); err != nil {
		return nil, fmt.Errorf("tlsSettings: %w", err)
	}
	if len(c.GetSubscribedResources()) > 0 {
		// Istio reads this field nowhere either.
		s.o.Logger.Warn("subscribedResources is not followed: all kinds are asked for", "source", a.Text)
	}
	if s.security.skipVerify {
		s.o.Logger.Warn("insecureSkipVerify: anybody on the way can pose as this config source", "source", a.Text)
	}
	return s, nil
}

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
		o.Clock = systemClock{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Name is the address as it was given.
func (s *Source) Name() string { return s.address.Text }

// Run sends the objects that the server has, type by type as it answers, Synced when it has answered for every type, and then
// a batch for each change, until the context ends; then it returns nil. While the server is away what it said stays.
//
// The Problems of an object have its key as their scope, those of a type its URL, and those of the connection the source's
// name. Config.Origin is the source's name too.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	r := newRun(s, out)
	failures := 0
	for ctx.Err() == nil {
		began := s.o.Clock.Now()
		if answered, lost := r.connect(ctx); ctx.Err() == nil {
			if s.o.Clock.Now().Sub(began) > s.o.MaxBackoff {
				failures = 0
			}
			pause := s.pause(failures)
			failures++
			r.lost(ctx, lost, answered, pause)
			select {
			case <-s.o.Clock.After(pause):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// pause gives the time to wait after so many failures in a row.
func (s *Source) pause(failures int) time.Duration {
	d := s.o.Backoff
	for range failures {
		if d *= 2; d >= s.o.MaxBackoff {
			d = s.o.MaxBackoff
			break
		}
	}
	return d/2 + time.Duration(s.o.Random()*float64(d/2))
}

// Clock is the time.
type Clock interface {
	Now() time.Time
	// After gives a channel that gets the time once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
