package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
)

// hedgeDelay is how long a server may take before the next one is queried as well.
const hedgeDelay = time.Second

// upstream queries the servers for names outside of the mesh.
type upstream struct {
	servers []string // host:port
	timeout time.Duration
	// parallel queries all servers at once.
	parallel bool
	dialer   *net.Dialer
	recovery *recovery.Recorder
}

var errNoServers = errors.New("resolv.conf has no name server")

// query returns the first answer of a server that is not SERVFAIL or REFUSED. Servers are queried
// in random order: all at once with u.parallel, otherwise the next when one fails or takes longer
// than hedgeDelay. If all servers have failed, it returns the last SERVFAIL or REFUSED, or else an
// error. It also returns an error without servers, after u.timeout and when ctx ends.
func (u upstream) query(ctx context.Context, query *dns.Msg, overTCP bool) (*dns.Msg, error) {
	if len(u.servers) == 0 {
		return nil, errNoServers
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	h := hedgedQuery{
		upstream: u, query: query, overTCP: overTCP,
		order: rand.Perm(len(u.servers)), results: make(chan serverResult, len(u.servers)),
	}
	more := h.queryNext(ctx)
	for more && u.parallel {
		more = h.queryNext(ctx)
	}
	slow := time.NewTimer(hedgeDelay)
	defer slow.Stop()
	for {
		select {
		case r := <-h.results:
			if h.addResult(r) {
				return r.reply, nil
			}
			if !h.queryNext(ctx) && h.answered == h.asked {
				return h.failure()
			}
		case <-slow.C:
			if h.queryNext(ctx) {
				slow.Reset(hedgeDelay)
			}
		case <-ctx.Done():
			return nil, errors.Join(append(h.errs, ctx.Err())...)
		}
	}
}

// hedgedQuery is one call of upstream.query.
type hedgedQuery struct {
	upstream
	query   *dns.Msg
	overTCP bool
	order   []int // indices of servers
	// asked and answered are numbers of servers.
	asked, answered int
	results         chan serverResult
	rejected        *dns.Msg // the last SERVFAIL or REFUSED
	errs            []error
}

// serverResult is the answer of one server, or the error of its query.
type serverResult struct {
	reply *dns.Msg
	err   error
}

// queryNext queries the next server in a goroutine, which sends to h.results, and returns true. It
// returns false, and does nothing, if all servers have been queried.
func (h *hedgedQuery) queryNext(ctx context.Context) bool {
	if h.asked == len(h.order) {
		return false
	}
	server := h.servers[h.order[h.asked]]
	h.asked++
	go func() {
		var reply *dns.Msg
		err := h.recovery.Call("dns", func() (err error) {
			reply, err = h.queryServer(ctx, h.query, server, h.overTCP)
			return err
		}, "server", server)
		h.results <- serverResult{reply, err}
	}()
	return true
}

// addResult counts the result of a server, and reports whether its reply answers the query.
// Otherwise it records the error, or the SERVFAIL or REFUSED.
func (h *hedgedQuery) addResult(r serverResult) bool {
	h.answered++
	switch {
	case r.err != nil:
		h.errs = append(h.errs, r.err)
	case r.reply.Rcode == dns.RcodeServerFailure || r.reply.Rcode == dns.RcodeRefused:
		h.rejected = r.reply
	default:
		return true
	}
	return false
}

// failure returns the last SERVFAIL or REFUSED of all servers, or an error with all their errors if
// there was none.
func (h *hedgedQuery) failure() (*dns.Msg, error) {
	if h.rejected != nil {
		return h.rejected, nil
	}
	return nil, errors.Join(h.errs...)
}

// queryServer returns the answer of one server. A truncated answer over UDP is requested again over
// TCP, and returned as it is if that fails.
func (u upstream) queryServer(ctx context.Context, query *dns.Msg, server string, overTCP bool) (*dns.Msg, error) {
	network := "udp"
	if overTCP {
		network = "tcp"
	}
	reply, err := u.exchange(ctx, query, server, network)
	if err == nil && reply.Truncated && !overTCP {
		if whole, err := u.exchange(ctx, query, server, "tcp"); err == nil {
			return whole, nil
		}
	}
	return reply, err
}

// exchange sends the query over a new connection, with a random ID, and returns the answer with the
// query's own ID. It returns an error for an answer to another question, and when ctx ends.
func (u upstream) exchange(ctx context.Context, query *dns.Msg, server, network string) (*dns.Msg, error) {
	asked := query.Copy()
	asked.Id = dns.Id() // a fresh random ID: others might guess the application's
	client := &dns.Client{Net: network, Timeout: u.timeout, Dialer: u.dialer, UDPSize: dns.DefaultMsgSize}
	connection, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("name server %s: %w", server, err)
	}
	// Cancels the exchange when another server has answered. Closing twice is harmless.
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	defer func() { _ = connection.Close() }()
	reply, _, err := client.ExchangeWithConnContext(ctx, asked, connection)
	if err != nil {
		return nil, fmt.Errorf("name server %s: %w", server, err)
	}
	q := query.Question[0]
	if len(reply.Question) != 1 || !strings.EqualFold(reply.Question[0].Name, q.Name) ||
		reply.Question[0].Qtype != q.Qtype {
		return nil, fmt.Errorf("name server %s answered another question", server)
	}
	reply.Id = query.Id
	return reply, nil
}
