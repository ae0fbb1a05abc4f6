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

// hedge is how long a server may take before the next one is asked as well.
const hedge = time.Second

// upstream are the servers for names that are not the mesh's.
type upstream struct {
	servers []string // host:port
	timeout time.Duration
	// parallel asks all servers at once.
	parallel bool
	dialer   *net.Dialer
	recovery *recovery.Recorder
}

var errNoServers = errors.New("resolv.conf has no name server")

// ask gives the first good answer of a server. They are asked in a random order; a further one when one fails or is slow. An
// answer that says the server failed or refuses counts only if there is no other.
func (u upstream) ask(ctx context.Context, query *dns.Msg, overTCP bool) (*dns.Msg, error) {
	if len(u.servers) == 0 {
		return nil, errNoServers
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	type result struct {
		reply *dns.Msg
		err   error
	}
	results := make(chan result, len(u.servers))
	order := rand.Perm(len(u.servers))
	asked, answered := 0, 0
	next := func() {
		server := u.servers[order[asked]]
		asked++
		go func() {
			var reply *dns.Msg
			err := u.recovery.Call("dns", func() (err error) { reply, err = u.askOne(ctx, query, server, overTCP); return err }, "server", server)
			results <- result{reply, err}
		}()
	}
	next()
	for u.parallel && asked < len(order) {
		next()
	}
	slow := time.NewTimer(hedge)
	defer slow.Stop()
	var poor *dns.Msg
	var errs []error
	for {
		select {
		case r := <-results:
			answered++
			switch {
			case r.err != nil:
				errs = append(errs, r.err)
			case r.reply.Rcode == dns.RcodeServerFailure || r.reply.Rcode == dns.RcodeRefused:
				poor = r.reply
			default:
				return r.reply, nil
			}
			if asked < len(order) {
				next()
			} else if answered == asked {
				if poor != nil {
					return poor, nil
				}
				return nil, errors.Join(errs...)
			}
		case <-slow.C:
			if asked < len(order) {
				next()
				slow.Reset(hedge)
			}
		case <-ctx.Done():
			return nil, errors.Join(append(errs, ctx.Err())...)
		}
	}
}

// askOne asks one server. An answer that does not fit into a datagram is asked for again over TCP.
func (u upstream) askOne(ctx context.Context, query *dns.Msg, server string, overTCP bool) (*dns.Msg, error) {
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

func (u upstream) exchange(ctx context.Context, query *dns.Msg, server, network string) (*dns.Msg, error) {
	asked := query.Copy()
	asked.Id = dns.Id() // not the application's, which others may guess
	client := &dns.Client{Net: network, Timeout: u.timeout, Dialer: u.dialer, UDPSize: dns.DefaultMsgSize}
	connection, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("name server %s: %w", server, err)
	}
	// Once another server has answered, nobody waits for this one. Closing twice does no harm.
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	defer func() { _ = connection.Close() }()
	reply, _, err := client.ExchangeWithConnContext(ctx, asked, connection)
	if err != nil {
		return nil, fmt.Errorf("name server %s: %w", server, err)
	}
	if len(reply.Question) != 1 || !strings.EqualFold(reply.Question[0].Name, query.Question[0].Name) || reply.Question[0].Qtype != query.Question[0].Qtype {
		return nil, fmt.Errorf("name server %s answers another question", server)
	}
	reply.Id = query.Id
	return reply, nil
}
