package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// waitTimeout bounds every wait.
const patience = 20 * time.Second

// elsewhere is an upstream server whose answers the test provides.
type elsewhere struct {
	address string
	asked   atomic.Int64
	overTCP atomic.Int64
}

func startElsewhere(t *testing.T, answer func(w dns.ResponseWriter, query *dns.Msg, overTCP bool)) *elsewhere {
	t.Helper()
	l, err := listenUDPAndTCP(&net.ListenConfig{}, port(t))
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{address: l.udp.LocalAddr().String()}
	handler := func(overTCP bool) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
			e.asked.Add(1)
			if overTCP {
				e.overTCP.Add(1)
			}
			answer(w, query, overTCP)
		})
	}
	for _, s := range []*dns.Server{{PacketConn: l.udp, Handler: handler(false)}, {Listener: l.tcp, Handler: handler(true)}} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- serveUntilDone(ctx, s) }()
		t.Cleanup(func() {
			cancel()
			<-done
		})
	}
	return e
}

// port returns an unused address for both protocols.
func port(t *testing.T) string {
	t.Helper()
	for range 100 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := udp.LocalAddr().String()
		tcp, err := net.Listen("tcp", address)
		udp.Close()
		if err == nil {
			tcp.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// one answers with one address with a TTL of a minute.
func one(w dns.ResponseWriter, query *dns.Msg, _ bool) {
	m := new(dns.Msg).SetReply(query)
	m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
	_ = w.WriteMsg(m)
}

// nxdomain answers every query with NXDOMAIN.
func nxdomain(w dns.ResponseWriter, query *dns.Msg, _ bool) {
	_ = w.WriteMsg(new(dns.Msg).SetRcode(query, dns.RcodeNameError))
}

// open starts a Server with those upstream servers.
func open(t *testing.T, change func(*Options), servers ...*elsewhere) *Server {
	t.Helper()
	o := Options{
		Addresses: []string{port(t)}, ShortNames: NewShortNames("shop", "shop.svc.cluster.local"), Timeout: 2 * time.Second,
		ResolvConf: filepath.Join(t.TempDir(), "resolv.conf"), Log: slog.New(slog.DiscardHandler),
	}
	text := "# a comment\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
	if err := os.WriteFile(o.ResolvConf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(patience); len(s.resolver.Load().search) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("resolv.conf is not read")
		}
	}
	r := *s.resolver.Load() // resolv.conf has no ports
	for _, e := range servers {
		r.servers = append(r.servers, e.address)
	}
	s.resolver.Store(&r)
	return s
}

func shop() mesh.NameTable {
	return mesh.NameTable{
		"reviews.shop.svc.cluster.local":   {IPs: []string{"10.96.0.1", "fd00::1"}, Registry: mesh.Kubernetes, ShortName: "reviews", Namespace: "shop"},
		"ratings.other.svc.cluster.local":  {IPs: []string{"10.96.0.2"}, Registry: mesh.Kubernetes, ShortName: "ratings", Namespace: "other"},
		"web.shop.svc.cluster.local":       {IPs: []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"}, Registry: mesh.Kubernetes, ShortName: "web", Namespace: "shop"},
		"web-0.web.shop.svc.cluster.local": {IPs: []string{"10.1.0.1"}, Registry: mesh.Kubernetes, ShortName: "web-0.web", Namespace: "shop"},
		"far.shop.svc.cluster.example":     {IPs: []string{"10.3.0.1"}, Registry: mesh.Kubernetes, ShortName: "far", Namespace: "shop"},
		"api.example.com":                  {IPs: []string{"240.240.0.1"}, Registry: "External"},
		"*.example.com":                    {IPs: []string{"240.240.0.2"}, Registry: "External"},
		"*.deep.example.com":               {IPs: []string{"240.240.0.3"}, Registry: "External"},
		"ratings.other":                    {IPs: []string{"240.240.0.4"}, Registry: "External"},
		"only6.example.org":                {IPs: []string{"2001:db8::1"}, Registry: "External"},
		"broken.example.org":               {IPs: []string{"x"}, Registry: "External"},
	}
}

func exchange(t *testing.T, s *Server, network, name string, kind uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	reply, _, err := (&dns.Client{Net: network, Timeout: patience}).Exchange(m, s.ListenAddresses()[0])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return reply
}

// said returns an answer as text: "NOERROR a CNAME b; b 1.2.3.4", with sorted addresses.
func said(m *dns.Msg) string {
	var list []string
	for _, r := range m.Answer {
		switch r := r.(type) {
		case *dns.CNAME:
			list = append(list, r.Hdr.Name+" is "+r.Target)
		case *dns.A:
			list = append(list, r.Hdr.Name+" "+r.A.String())
		case *dns.AAAA:
			list = append(list, r.Hdr.Name+" "+r.AAAA.String())
		}
	}
	slices.Sort(list)
	return strings.TrimSpace(dns.RcodeToString[m.Rcode] + " " + strings.Join(list, "; "))
}

// TestAnswers tests by which names hosts are found, and the answers.
func TestAnswers(t *testing.T) {
	e := startElsewhere(t, nxdomain)
	s := open(t, nil, e)
	s.SetNameTable(shop())
	for _, test := range []struct {
		name string
		kind uint16
		want string
		ours bool
	}{
		{"reviews.shop.svc.cluster.local", dns.TypeA, "NOERROR reviews.shop.svc.cluster.local. 10.96.0.1", true},
		{"reviews.shop.svc.cluster.local", dns.TypeAAAA, "NOERROR reviews.shop.svc.cluster.local. fd00::1", true},
		{"REVIEWS.shop.svc.Cluster.local", dns.TypeA, "NOERROR REVIEWS.shop.svc.Cluster.local. 10.96.0.1", true},
		{"reviews", dns.TypeA, "NOERROR reviews. 10.96.0.1", true},
		{"reviews.shop", dns.TypeA, "NOERROR reviews.shop. 10.96.0.1", true},
		{"reviews.shop.svc", dns.TypeA, "NOERROR reviews.shop.svc. 10.96.0.1", true},
		{"ratings.other.svc", dns.TypeA, "NOERROR ratings.other.svc. 10.96.0.2", true},
		{"ratings", dns.TypeA, "NXDOMAIN", false},                                // in another namespace
		{"ratings.other", dns.TypeA, "NOERROR ratings.other. 240.240.0.4", true}, // a host with this full name
		{"far.shop", dns.TypeA, "NXDOMAIN", false},                               // in another domain
		{"far.shop.svc.cluster.example", dns.TypeA, "NOERROR far.shop.svc.cluster.example. 10.3.0.1", true},
		{"web-0.web", dns.TypeA, "NOERROR web-0.web. 10.1.0.1", true},
		{"web", dns.TypeA, "NOERROR web. 10.1.0.1; web. 10.1.0.2; web. 10.1.0.3", true},
		{"api.example.com", dns.TypeA, "NOERROR api.example.com. 240.240.0.1", true},
		{"api.example.com", dns.TypeAAAA, "NOERROR", true}, // the name exists
		{"only6.example.org", dns.TypeA, "NOERROR", true},
		{"broken.example.org", dns.TypeA, "NXDOMAIN", false},
		{"a.example.com", dns.TypeA, "NOERROR a.example.com. 240.240.0.2", true},
		{"a.b.example.com", dns.TypeA, "NOERROR a.b.example.com. 240.240.0.2", true},
		{"a.deep.example.com", dns.TypeA, "NOERROR a.deep.example.com. 240.240.0.3", true},
		{"example.com", dns.TypeA, "NXDOMAIN", false},
		{"notexample.com", dns.TypeA, "NXDOMAIN", false},
		{"api.example.com.shop.svc.cluster.local", dns.TypeA, "NOERROR api.example.com. 240.240.0.1; api.example.com.shop.svc.cluster.local. is api.example.com.", true},
		{"api.example.com.cluster.local", dns.TypeAAAA, "NOERROR", true},
		{"z.example.com.svc.cluster.local", dns.TypeA, "NOERROR z.example.com. 240.240.0.2; z.example.com.svc.cluster.local. is z.example.com.", true},
		{"nowhere.shop.svc.cluster.local", dns.TypeA, "NXDOMAIN", false},
		{"api.example.com", dns.TypeMX, "NOERROR", false}, // forwarded, but the name exists
		{".", dns.TypeNS, "NXDOMAIN", false},
	} {
		for _, network := range []string{"udp", "tcp"} {
			before := e.asked.Load()
			m := exchange(t, s, network, test.name, test.kind)
			if got := said(m); got != test.want {
				t.Errorf("%s %s over %s: %s, want %s", test.name, dns.TypeToString[test.kind], network, got, test.want)
			}
			if ours := e.asked.Load() == before; ours != test.ours || m.Authoritative != test.ours {
				t.Errorf("%s over %s: answered here %v, authoritative %v; want %v", test.name, network, ours, m.Authoritative, test.ours)
			}
		}
	}
	if d := s.Dump(); len(d.Table["reviews.shop"].IPs) != 2 {
		t.Errorf("shown %+v", d.Table)
	}
}

// TestBalance tests that each address of a host is first at some time.
func TestBalance(t *testing.T) {
	s := open(t, nil)
	s.SetNameTable(shop())
	first := map[string]bool{}
	for range 200 {
		first[exchange(t, s, "udp", "web", dns.TypeA).Answer[0].(*dns.A).A.String()] = true //nolint:forcetypeassert // type A requested
	}
	if len(first) != 3 {
		t.Errorf("first were %v", first)
	}
}

// TestBeforeTheTable tests that queries fail until there is a name table, unless EarlyUpstream is
// set.
func TestBeforeTheTable(t *testing.T) {
	e := startElsewhere(t, one)
	s := open(t, nil, e)
	if got := said(exchange(t, s, "udp", "a.example.org", dns.TypeA)); got != "SERVFAIL" || s.CheckReady() == nil || s.Dump() != nil {
		t.Errorf("%s, ready %v", got, s.CheckReady())
	}
	s.SetNameTable(nil)
	if got := said(exchange(t, s, "udp", "a.example.org", dns.TypeA)); got != "NOERROR a.example.org. 192.0.2.1" || s.CheckReady() != nil {
		t.Errorf("%s, ready %v", got, s.CheckReady())
	}
	s = open(t, func(o *Options) { o.EarlyUpstream = true }, e)
	if got := said(exchange(t, s, "udp", "a.example.org", dns.TypeA)); got != "NOERROR a.example.org. 192.0.2.1" {
		t.Error(got)
	}
}

// TestCache tests that answers are cached for their TTL and returned in the spelling of the query.
func TestCache(t *testing.T) {
	e := startElsewhere(t, one)
	now := time.Now()
	var skip atomic.Int64
	s := open(t, func(o *Options) { o.Now = func() time.Time { return now.Add(time.Duration(skip.Load())) } }, e)
	s.SetNameTable(nil)
	for i, name := range []string{"a.example.org", "A.example.org", "b.example.org"} {
		m := exchange(t, s, "udp", name, dns.TypeA)
		if want := fmt.Sprintf("NOERROR %s. 192.0.2.1", []string{"a.example.org", "a.example.org", "b.example.org"}[i]); said(m) != want {
			t.Errorf("%s, want %s", said(m), want)
		}
		if m.Question[0].Name != name+"." {
			t.Errorf("question %s", m.Question[0].Name)
		}
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	skip.Store(int64(40 * time.Second))
	if got := exchange(t, s, "udp", "a.example.org", dns.TypeA).Answer[0].Header().Ttl; got != 20 {
		t.Errorf("lives for %d s more", got)
	}
	skip.Store(int64(61 * time.Second))
	if got := exchange(t, s, "udp", "a.example.org", dns.TypeA).Answer[0].Header().Ttl; got != 60 || e.asked.Load() != 3 {
		t.Errorf("lives for %d s more, asked %d times", got, e.asked.Load())
	}
	for i := range 2 * maxCached {
		q := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.org.", i), dns.TypeA)
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}}}
		s.cache.store(q, m)
	}
	if n := len(s.cache.entries); n > maxCached {
		t.Errorf("%d answers are kept", n)
	}
}

// TestOtherServers tests that unreachable, failing and lying servers delay an answer but do not
// prevent it.
func TestOtherServers(t *testing.T) {
	good := startElsewhere(t, one)
	failing := startElsewhere(t, func(w dns.ResponseWriter, q *dns.Msg, _ bool) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
	})
	silent := startElsewhere(t, func(dns.ResponseWriter, *dns.Msg, bool) {})
	liar := startElsewhere(t, func(w dns.ResponseWriter, q *dns.Msg, _ bool) {
		m := new(dns.Msg).SetReply(q)
		m.Question[0].Name = "another.example.org."
		_ = w.WriteMsg(m)
	})
	for _, parallel := range []bool{false, true} {
		s := open(t, func(o *Options) { o.Parallel = parallel; o.Timeout = 10 * time.Second }, failing, silent, liar, good)
		s.SetNameTable(nil)
		for i := range 3 {
			begin := time.Now()
			if got := said(exchange(t, s, "udp", fmt.Sprintf("a%d.example.org", i), dns.TypeA)); !strings.HasPrefix(got, "NOERROR") || time.Since(begin) > 4*hedgeDelay {
				t.Errorf("parallel %v: %s after %v", parallel, got, time.Since(begin))
			}
		}
	}
	s := open(t, nil, failing)
	s.SetNameTable(nil)
	if got := said(exchange(t, s, "udp", "a.example.org", dns.TypeA)); got != "SERVFAIL" {
		t.Error(got)
	}
	s = open(t, nil)
	s.SetNameTable(nil)
	if got := said(exchange(t, s, "udp", "a.example.org", dns.TypeA)); got != "SERVFAIL" {
		t.Error(got)
	}
}

// TestBigAnswers tests that a truncated answer is requested over TCP, and truncated for a client
// that cannot receive it.
func TestBigAnswers(t *testing.T) {
	e := startElsewhere(t, func(w dns.ResponseWriter, q *dns.Msg, overTCP bool) {
		m := new(dns.Msg).SetReply(q)
		for i := range 100 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, byte(i))})
		}
		if !overTCP {
			m.Truncate(dns.MinMsgSize)
		}
		_ = w.WriteMsg(m)
	})
	s := open(t, nil, e)
	s.SetNameTable(nil)
	if m := exchange(t, s, "udp", "a.example.org", dns.TypeA); !m.Truncated || len(m.Answer) >= 100 || e.overTCP.Load() != 1 {
		t.Errorf("truncated %v, %d answers, asked %d times over TCP", m.Truncated, len(m.Answer), e.overTCP.Load())
	}
	if m := exchange(t, s, "tcp", "a.example.org", dns.TypeA); m.Truncated || len(m.Answer) != 100 {
		t.Errorf("truncated %v, %d answers", m.Truncated, len(m.Answer))
	}
}

// TestHostile tests that malformed queries are harmless.
func TestHostile(t *testing.T) {
	s := open(t, nil, startElsewhere(t, nxdomain))
	s.SetNameTable(shop())
	connection, err := net.Dial("udp", s.ListenAddresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	two := new(dns.Msg).SetQuestion("reviews.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	packed, err := two.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{{}, {0}, make([]byte, 12), make([]byte, 60000), packed, append(packed, 0xc0, 0x0c)} {
		_, _ = connection.Write(b)
	}
	if got := said(exchange(t, s, "udp", "reviews", dns.TypeA)); got != "NOERROR reviews. 10.96.0.1" {
		t.Error(got)
	}
}

// FuzzFind tests that lookups return only names that match, and never panic.
func FuzzFind(f *testing.F) {
	for _, name := range []string{"reviews.", ".", "*.", "..", "a.example.com.shop.svc.cluster.local.", `a\.b.example.com.`, strings.Repeat("a.", 127)} {
		f.Add(name)
	}
	t := newTable(shop(), NewShortNames("shop", "shop.svc.cluster.local"))
	search := []string{"shop.svc.cluster.local.", "."}
	f.Fuzz(func(test *testing.T, name string) {
		_, alias, ok := t.lookup(name, search)
		if ok && !strings.HasSuffix(name, ".") {
			test.Errorf("%q is found, and is no full name", name)
		}
		if alias != "" && !strings.HasPrefix(name, strings.TrimSuffix(alias, ".")) {
			test.Errorf("%q is an alias of %q", name, alias)
		}
	})
}
