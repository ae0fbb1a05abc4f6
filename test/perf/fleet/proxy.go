package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// proxy is one simulated sidecar.
type proxy struct {
	f           *Fleet
	index       int
	node        []byte // without the fields in Fleet.build
	credentials credentials.TransportCredentials

	absent atomic.Bool
	heard  atomic.Int64 // messages
	rate   atomic.Int64 // bytes a second that it reads; 0: as fast as it can
	wake   notify.Wake
	// dialed is the index of the address of the newest connection. assigned is nil while no control
	// plane serves the proxy.
	dialed   atomic.Int32
	assigned atomic.Pointer[Assignment]

	mu    sync.Mutex
	round *Round
	leaf  context.CancelFunc // ends its work in the round

	state sync.Mutex // for the fields below, which belong to the goroutine of the proxy
	// held is by type and name the edition; 0: not there, -1: known not to exist.
	held [wire.NumTypes][]int32
	// wanted are the EDS, RDS and ECDS names subscribed to, listeners the listeners that need names.
	wanted    [wire.NumTypes]idSet
	listeners map[int32]*book
	// clusters is the content of all EDS clusters (SotW).
	clusters uint64
	complete bool // had everything once

	stream
}

// stream is what belongs to the open stream.
type stream struct {
	syncing        *Round // nil: it is in sync
	got, asked     [wire.NumTypes]bool
	nonce, version [wire.NumTypes]string
	out            chan []byte
	response       wire.Response
}

// Envoy opens a stream again after a random part of an interval that doubles from 500 ms to 30 s,
// and that a response resets.
const (
	backoffBase       = 500 * time.Millisecond
	defaultMaxBackoff = 5 * time.Second
)

// outbox is how many requests may wait to be sent. A blocked send must not stop receiving.
const outbox = 256

// joinRound makes the proxy end its work and join a round.
func (p *proxy) joinRound(r *Round) {
	p.mu.Lock()
	p.round = r
	if p.leaf != nil {
		p.leaf()
	}
	p.mu.Unlock()
	p.wake.Notify()
}

// runProxy plays the proxy until the context ends.
func (p *proxy) runProxy(ctx context.Context) {
	var last *Round
	for {
		p.mu.Lock()
		r := p.round
		inner, cancel := context.WithCancel(ctx)
		p.leaf = cancel
		p.mu.Unlock()
		if r == last {
			select {
			case <-ctx.Done():
				cancel()
				return
			case <-p.wake.C():
			}
			cancel()
			continue
		}
		last = r
		r.away.Done()
		select {
		case <-inner.Done():
		case <-r.gate:
			p.stayConnected(inner, r)
		}
		cancel()
	}
}

// stayConnected connects and stays connected until the context ends.
func (p *proxy) stayConnected(ctx context.Context, r *Round) {
	p.state.Lock()
	p.complete = p.complete && !r.fresh
	p.syncing = r
	p.state.Unlock()
	backoff := backoffBase
	for {
		err := p.connectOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		p.f.recordEnd(err)
		if p.got[wire.CDS] {
			backoff = backoffBase
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(backoff)):
		}
		backoff = min(2*backoff, p.f.options.MaxBackoff)
	}
}

// connectOnce opens a connection and a stream on it, and handles its messages until it ends.
func (p *proxy) connectOnce(ctx context.Context) error {
	conn, err := p.dialServer()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer p.assigned.Store(nil)
	return p.runStream(ctx, conn)
}

// runStream opens a stream and handles its messages until it ends.
func (p *proxy) runStream(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "ClusterID", "Kubernetes"))
	defer cancel()
	method := wire.SotWMethod
	if p.f.options.Delta {
		method = wire.DeltaMethod
	}
	st, err := conn.NewStream(
		ctx,
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		method,
	)
	if err != nil {
		return err
	}
	out, sent := make(chan []byte, outbox), make(chan struct{})
	go func() {
		defer close(sent)
		for b := range out {
			if st.SendMsg(b) != nil {
				cancel()
			}
		}
	}()
	defer func() { close(out); cancel(); <-sent }()

	p.state.Lock()
	p.stream = stream{syncing: p.syncing, version: p.version, out: out}
	p.sendFirst()
	p.state.Unlock()
	for {
		var f wire.Frame
		if err := st.RecvMsg(&f); err != nil {
			return err
		}
		err := p.handleResponse(f.Bytes(), time.Now())
		f.Free()
		if err != nil {
			return err
		}
	}
}

// sendFirst sends the first requests of a stream: only CDS from a fresh proxy, all types from a
// proxy with state.
func (p *proxy) sendFirst() {
	if !p.complete {
		p.held, p.wanted, p.clusters, p.version = [wire.NumTypes][]int32{}, [wire.NumTypes]idSet{}, 0, [wire.NumTypes]string{}
		clear(p.listeners)
		p.requestType(wire.CDS)
		return
	}
	if !p.f.options.Delta { // everything is sent again
		for t := range p.held {
			clear(p.held[t])
		}
	}
	for t := range wire.NumTypes {
		if t.Wildcard() || !p.wanted[t].isEmpty() {
			p.requestType(t)
		}
	}
}
