package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// maxForwarded bounds the number of queries forwarded at the same time. Further ones fail.
	maxForwarded = 1024
	// maxTCP bounds the number of queries on one TCP connection.
	maxTCP = 1024
)

// Options configure a Server.
type Options struct {
	// Addresses are the host:port to listen on, for UDP and TCP.
	Addresses  []string
	ShortNames ShortNames
	// ResolvConf is the resolv.conf file with the upstream servers. Changes of it are applied.
	ResolvConf string
	// EarlyUpstream forwards queries while there is no name table, instead of failing them. It is
	// required if the proxy is the host's only resolver, because the agent could not resolve the
	// control plane otherwise.
	EarlyUpstream bool
	// Timeout bounds a query to upstream servers. With Parallel all are queried at once.
	Timeout  time.Duration
	Parallel bool
	// Dialer opens connections to upstream servers.
	Dialer *net.Dialer
	// ListenConfig opens the listeners. If nil, they have no socket mark.
	ListenConfig *net.ListenConfig
	Metrics      prometheus.Registerer
	// Now returns the time, for the cache. If nil, it is time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Recovery confines a panic to its query, which gets SERVFAIL. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Server is a DNS server. It is safe for concurrent use.
type Server struct {
	o         Options
	metrics   metrics
	cache     *cache
	listeners []listener
	// forwarding has one element for each query that is being forwarded.
	forwarding chan struct{}
	table      atomic.Pointer[table]
	resolver   atomic.Pointer[resolvConf]
}

// resolvConf is the content of resolv.conf.
type resolvConf struct {
	servers, search []string
}

type listener struct {
	udp net.PacketConn
	tcp net.Listener
}

// Open returns a Server that listens on its addresses. It does not answer before Run. The caller
// must call Run or Close. If an address cannot be opened, it closes the others and returns an
// error.
func Open(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ListenConfig == nil {
		o.ListenConfig = &net.ListenConfig{}
	}
	s := &Server{o: o, cache: newCache(o.Now), forwarding: make(chan struct{}, maxForwarded)}
	s.resolver.Store(&resolvConf{})
	for _, address := range o.Addresses {
		l, err := listenUDPAndTCP(o.ListenConfig, address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("DNS proxy: %w", err), s.Close())
		}
		s.listeners = append(s.listeners, l)
	}
	s.metrics = newMetrics(o.Metrics) // once: the caller may open another address after an error
	return s, nil
}

// listenUDPAndTCP opens the same port for both protocols. It fails, and opens none, if one cannot
// be opened. The TCP port has the number of the UDP port, also if the address has port 0.
func listenUDPAndTCP(config *net.ListenConfig, address string) (listener, error) {
	udp, err := config.ListenPacket(context.Background(), "udp", address)
	if err != nil {
		return listener{}, err
	}
	tcp, err := config.Listen(context.Background(), "tcp", udp.LocalAddr().String())
	if err != nil {
		return listener{}, errors.Join(err, udp.Close())
	}
	return listener{udp, tcp}, nil
}

// Close closes the sockets of a Server that does not run, and joins the errors.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.udp.Close(), l.tcp.Close())
	}
	return errors.Join(errs...)
}

// ListenAddresses returns the addresses on which the Server listens, as host:port.
func (s *Server) ListenAddresses() []string {
	var list []string
	for _, l := range s.listeners {
		list = append(list, l.udp.LocalAddr().String())
	}
	return list
}

// SetNameTable replaces the name table. It takes effect for the next query; the caller must not
// change table afterwards.
func (s *Server) SetNameTable(table mesh.NameTable) { s.table.Store(newTable(table, s.o.ShortNames)) }

// Dump is the content of the name table for the debug page.
type Dump struct {
	Table map[string]Entry `json:"table"`
}

// Entry holds the addresses and origin of one host.
type Entry struct {
	IPs       []string `json:"ips"`
	Registry  string   `json:"registry,omitempty"`
	ShortName string   `json:"shortname,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

// Dump returns the hosts of the name table without trailing dots, nil if there is no table yet. It
// includes short names, with only their addresses, and hosts without a valid address.
func (s *Server) Dump() *Dump {
	t := s.table.Load()
	if t == nil {
		return nil
	}
	d := &Dump{Table: make(map[string]Entry, len(t.hosts))}
	for name, a := range t.hosts {
		e := Entry{}
		for _, ip := range slices.Concat(a.v4, a.v6) {
			e.IPs = append(e.IPs, ip.String())
		}
		d.Table[strings.TrimSuffix(name, ".")] = e
	}
	for host, e := range t.source {
		d.Table[strings.TrimSuffix(string(host), ".")] = Entry{
			IPs: e.IPs, Registry: string(e.Registry), ShortName: e.ShortName, Namespace: e.Namespace,
		}
	}
	return d
}

// CheckReady returns an error if there is no name table yet.
func (s *Server) CheckReady() error {
	if s.table.Load() == nil {
		return errors.New("DNS proxy has not received a name table from the control plane")
	}
	return nil
}

// Run answers queries until ctx ends or a server fails, and closes the sockets. It follows changes
// of resolv.conf. It returns the first server's error, or nil if ctx ended.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		watch.File(ctx, s.o.ResolvConf, watch.Options{Logger: s.o.Log}, s.updateResolvConf)
		return nil
	})
	for _, l := range s.listeners {
		for _, server := range []*dns.Server{
			{PacketConn: l.udp, Handler: s.newHandler(ctx, false), UDPSize: dns.DefaultMsgSize},
			{Listener: l.tcp, Handler: s.newHandler(ctx, true), MaxTCPQueries: maxTCP},
		} {
			group.Go(func() error { return serveUntilDone(ctx, server) })
		}
	}
	return group.Wait()
}

// serveUntilDone runs a DNS server until ctx ends or it fails. Queries have a second to finish when
// ctx ends. It returns nil after a shutdown. A failure to start is returned as well.
func serveUntilDone(ctx context.Context, server *dns.Server) error {
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	failed := make(chan error, 1)
	go func() { failed <- server.ActivateAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("DNS proxy: %w", err)
	case <-started:
	}
	select {
	case err := <-failed:
		return fmt.Errorf("DNS proxy: %w", err)
	case <-ctx.Done():
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.ShutdownContext(limit) // forwarded queries are abandoned after a second
		return <-failed
	}
}

// updateResolvConf parses resolv.conf and replaces the upstream servers and the search domains.
// Invalid content is logged and ignored. The proxy's own addresses are left out of the servers to
// prevent a loop.
func (s *Server) updateResolvConf(text []byte) {
	config, err := dns.ClientConfigFromReader(strings.NewReader(string(text)))
	if err != nil {
		s.o.Log.Warn("invalid resolv.conf ignored, keeping the previous upstream servers",
			"file", s.o.ResolvConf, "error", err)
		return
	}
	r := &resolvConf{}
	for _, server := range config.Servers {
		if address := net.JoinHostPort(server, config.Port); !slices.Contains(s.ListenAddresses(), address) {
			r.servers = append(r.servers, address)
		}
	}
	for _, domain := range config.Search {
		r.search = append(r.search, canonicalName(domain))
	}
	s.resolver.Store(r)
	s.o.Log.Debug("upstream name servers updated", "servers", r.servers, "search", r.search)
}

// newHandler returns a handler that replies to every query; if Options.Recovery is set, it replies
// SERVFAIL if resolving panics. Replies are truncated to the size that the client accepts.
func (s *Server) newHandler(ctx context.Context, overTCP bool) dns.HandlerFunc {
	return func(w dns.ResponseWriter, query *dns.Msg) {
		var reply *dns.Msg
		err := s.o.Recovery.Call("dns", func() error {
			reply = s.resolve(ctx, query, overTCP)
			truncateReply(reply, query, overTCP)
			return nil
		}, "questions", len(query.Question))
		if err != nil {
			reply = serverFailure(query)
		}
		_ = w.WriteMsg(reply) // on failure the client may retry
	}
}

// resolve counts a query and returns its reply: from the name table if that has the host, otherwise
// from upstream. It replies FORMERR unless there is exactly one question. Without a name table it
// returns SERVFAIL, or forwards the query if EarlyUpstream is set. Types other than A, AAAA and ANY
// are queried upstream; for a host in the table the reply is then empty instead of NXDOMAIN.
func (s *Server) resolve(ctx context.Context, query *dns.Msg, overTCP bool) *dns.Msg {
	s.metrics.requests.Inc()
	if len(query.Question) != 1 {
		return new(dns.Msg).SetRcode(query, dns.RcodeFormatError)
	}
	t := s.table.Load()
	if t == nil {
		if s.o.EarlyUpstream {
			return s.forward(ctx, query, overTCP)
		}
		return serverFailure(query)
	}
	q := query.Question[0]
	a, alias, known := addresses{}, "", false
	if q.Qclass == dns.ClassINET {
		a, alias, known = t.lookup(strings.ToLower(q.Name), s.resolver.Load().search)
	}
	if !known {
		return s.forward(ctx, query, overTCP)
	}
	if reply := newAnswer(query, a, alias, rand.Shuffle); reply != nil {
		return reply
	}
	reply := s.forward(ctx, query, overTCP)
	if reply.Rcode == dns.RcodeNameError { // the name exists in the mesh
		return new(dns.Msg).SetReply(query)
	}
	return reply
}

// forward returns the cached answer to a query if there is one. Otherwise it queries upstream,
// caches the answer and records metrics. It returns SERVFAIL if no server answers or maxForwarded
// queries are already being forwarded.
func (s *Server) forward(ctx context.Context, query *dns.Msg, overTCP bool) *dns.Msg {
	if reply, ok := s.cache.lookup(query); ok {
		s.metrics.cached.Inc()
		return reply
	}
	select {
	case s.forwarding <- struct{}{}:
		defer func() { <-s.forwarding }()
	default:
		s.metrics.failures.Inc()
		return serverFailure(query)
	}
	s.metrics.upstream.Inc()
	begin := time.Now()
	u := upstream{
		servers: s.resolver.Load().servers, timeout: s.o.Timeout, parallel: s.o.Parallel,
		dialer: s.o.Dialer, recovery: s.o.Recovery,
	}
	reply, err := u.query(ctx, query, overTCP)
	if err != nil {
		s.metrics.failures.Inc()
		s.o.Log.Debug("no upstream name server answered", "name", query.Question[0].Name, "error", err)
		return serverFailure(query)
	}
	s.metrics.duration.Observe(time.Since(begin).Seconds())
	s.cache.store(query, reply)
	return reply
}
