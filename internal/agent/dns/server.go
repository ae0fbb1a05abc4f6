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
	// maxForwarded bounds the queries that wait for other servers.
	maxForwarded = 1024
	// maxTCP bounds the queries of one TCP connection.
	maxTCP = 1024
)

// Options are what a Server works with.
type Options struct {
	// Addresses are where it listens, host:port each, for UDP and TCP.
	Addresses []string
	Names     Names
	// ResolvConf is the file that says which servers know the rest.
	ResolvConf string
	// EarlyUpstream passes queries on before there is a name table, instead of refusing them: where the proxy is the
	// host's only resolver, the control plane could not be found otherwise.
	EarlyUpstream bool
	// Timeout bounds a query to other servers, which are asked in turn or, with Parallel, at once.
	Timeout  time.Duration
	Parallel bool
	// Dialer opens the connections to other servers.
	Dialer  *net.Dialer
	Metrics prometheus.Registerer
	// Now is the time, for answers that are kept; nil is the system's.
	Now func() time.Time
	Log *slog.Logger
	// Recovery confines a panic to the query that causes it, which is answered with SERVFAIL. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Server answers queries. It is for use by many goroutines.
type Server struct {
	o         Options
	metrics   metrics
	cache     *cache
	listeners []listener
	// forwarding has one element for each query that waits for other servers.
	forwarding chan struct{}
	table      atomic.Pointer[table]
	resolver   atomic.Pointer[resolver]
}

// resolver is what resolv.conf says.
type resolver struct {
	servers, search []string
}

type listener struct {
	udp net.PacketConn
	tcp net.Listener
}

// Open makes a Server and its sockets. It does not answer before Run.
func Open(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, metrics: newMetrics(o.Metrics), cache: newCache(o.Now), forwarding: make(chan struct{}, maxForwarded)}
	s.resolver.Store(&resolver{})
	for _, address := range o.Addresses {
		l, err := listen(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("DNS proxy: %w", err), s.Close())
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// listen opens one port for both protocols.
func listen(address string) (listener, error) {
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return listener{}, err
	}
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	if err != nil {
		return listener{}, errors.Join(err, udp.Close())
	}
	return listener{udp, tcp}, nil
}

// Close gives the sockets back, of a Server that does not run.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.udp.Close(), l.tcp.Close())
	}
	return errors.Join(errs...)
}

// Bound gives the addresses that it listens on.
func (s *Server) Bound() []string {
	var list []string
	for _, l := range s.listeners {
		list = append(list, l.udp.LocalAddr().String())
	}
	return list
}

// Update takes a new name table.
func (s *Server) Update(given mesh.NameTable) { s.table.Store(newTable(given, s.o.Names)) }

// Dump is what the proxy answers from, as JSON shows it to people.
type Dump struct {
	Table map[string]Entry `json:"table"`
}

// Entry is what it answers of one host.
type Entry struct {
	IPs       []string `json:"ips"`
	Registry  string   `json:"registry,omitempty"`
	ShortName string   `json:"shortname,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

// Dump gives it, with the short names; nil before there is a name table.
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
	for host, e := range t.given {
		d.Table[strings.TrimSuffix(string(host), ".")] = Entry{IPs: e.IPs, Registry: string(e.Registry), ShortName: e.ShortName, Namespace: e.Namespace}
	}
	return d
}

// Ready says what keeps the proxy from answering for the mesh, if something does.
func (s *Server) Ready() error {
	if s.table.Load() == nil {
		return errors.New("the DNS proxy has no name table from the control plane yet")
	}
	return nil
}

// Run answers until the context ends.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		watch.File(ctx, s.o.ResolvConf, watch.Options{Logger: s.o.Log}, s.configure)
		return nil
	})
	for _, l := range s.listeners {
		for _, server := range []*dns.Server{
			{PacketConn: l.udp, Handler: s.handler(ctx, false), UDPSize: dns.DefaultMsgSize},
			{Listener: l.tcp, Handler: s.handler(ctx, true), MaxTCPQueries: maxTCP},
		} {
			group.Go(func() error { return serve(ctx, server) })
		}
	}
	return group.Wait()
}

func serve(ctx context.Context, server *dns.Server) error {
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
		_ = server.ShutdownContext(limit) // who still waits for another server is not waited for
		return <-failed
	}
}

// configure takes resolv.conf. Its own address among the servers would make it ask itself.
func (s *Server) configure(text []byte) {
	config, err := dns.ClientConfigFromReader(strings.NewReader(string(text)))
	if err != nil {
		s.o.Log.Warn("resolv.conf cannot be used; what it said before stays", "file", s.o.ResolvConf, "error", err)
		return
	}
	r := &resolver{}
	for _, server := range config.Servers {
		if address := net.JoinHostPort(server, config.Port); !slices.Contains(s.Bound(), address) {
			r.servers = append(r.servers, address)
		}
	}
	for _, domain := range config.Search {
		r.search = append(r.search, canonical(domain))
	}
	s.resolver.Store(r)
	s.o.Log.Debug("name servers", "servers", r.servers, "search", r.search)
}

func (s *Server) handler(ctx context.Context, overTCP bool) dns.HandlerFunc {
	return func(w dns.ResponseWriter, query *dns.Msg) {
		var reply *dns.Msg
		err := s.o.Recovery.Call("dns", func() error {
			reply = s.reply(ctx, query, overTCP)
			fit(reply, query, overTCP)
			return nil
		}, "questions", len(query.Question))
		if err != nil {
			reply = failure(query)
		}
		_ = w.WriteMsg(reply) // the client asks again, or not
	}
}

// reply answers a query, which has one question.
func (s *Server) reply(ctx context.Context, query *dns.Msg, overTCP bool) *dns.Msg {
	s.metrics.requests.Inc()
	if len(query.Question) != 1 {
		return new(dns.Msg).SetRcode(query, dns.RcodeFormatError)
	}
	t := s.table.Load()
	if t == nil {
		if s.o.EarlyUpstream {
			return s.forward(ctx, query, overTCP)
		}
		return failure(query)
	}
	q := query.Question[0]
	a, alias, known := addresses{}, "", false
	if q.Qclass == dns.ClassINET {
		a, alias, known = t.find(strings.ToLower(q.Name), s.resolver.Load().search)
	}
	if !known {
		return s.forward(ctx, query, overTCP)
	}
	if reply := answer(query, a, alias, rand.Shuffle); reply != nil {
		return reply
	}
	reply := s.forward(ctx, query, overTCP)
	if reply.Rcode == dns.RcodeNameError { // there is such a name: the mesh knows it
		return new(dns.Msg).SetReply(query)
	}
	return reply
}

// forward asks other servers.
func (s *Server) forward(ctx context.Context, query *dns.Msg, overTCP bool) *dns.Msg {
	if reply, ok := s.cache.get(query); ok {
		s.metrics.cached.Inc()
		return reply
	}
	select {
	case s.forwarding <- struct{}{}:
		defer func() { <-s.forwarding }()
	default:
		s.metrics.failures.Inc()
		return failure(query)
	}
	s.metrics.upstream.Inc()
	begin := time.Now()
	u := upstream{servers: s.resolver.Load().servers, timeout: s.o.Timeout, parallel: s.o.Parallel, dialer: s.o.Dialer, recovery: s.o.Recovery}
	reply, err := u.ask(ctx, query, overTCP)
	if err != nil {
		s.metrics.failures.Inc()
		s.o.Log.Debug("no other name server answers", "name", query.Question[0].Name, "error", err)
		return failure(query)
	}
	s.metrics.duration.Observe(time.Since(begin).Seconds())
	s.cache.put(query, reply)
	return reply
}
