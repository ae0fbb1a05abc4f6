package dns

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// FuzzPackets tests that any packet that the library parses gets a reply that can be encoded, fits
// the client's size and answers its question.
func FuzzPackets(f *testing.F) {
	add := func(name string, kind uint16, change func(*dns.Msg)) {
		q := new(dns.Msg).SetQuestion(name, kind)
		change(q)
		if packet, err := q.Pack(); err == nil {
			f.Add(packet, len(packet)%2 == 0)
		}
	}
	for _, name := range []string{"reviews.", "web.shop.svc.cluster.local.", "a.example.com.", "nobody.invalid.", ".", `a\.b.example.com.`} {
		add(name, dns.TypeA, func(*dns.Msg) {})
		add(name, dns.TypeAAAA, func(q *dns.Msg) { q.SetEdns0(100, true) })
		add(name, dns.TypeANY, func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]); q.Response = true })
		add(name, dns.TypeAXFR, func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS; q.Opcode = dns.OpcodeUpdate })
	}
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}, false) // a name that points to itself
	s, err := Open(Options{ShortNames: NewShortNames("shop", "shop.svc.cluster.local"), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Timeout: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	s.SetNameTable(shop())
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no upstream queries
	f.Fuzz(func(t *testing.T, packet []byte, overTCP bool) {
		query := new(dns.Msg)
		if query.Unpack(packet) != nil {
			return
		}
		reply := s.resolve(ctx, query, overTCP)
		truncateReply(reply, query, overTCP)
		out, err := reply.Pack()
		if err != nil || reply.Id != query.Id || !reply.Response {
			t.Fatalf("%v is answered by %v, %v", query, reply, err)
		}
		if room := 512; !overTCP && query.IsEdns0() == nil && len(out) > room {
			t.Errorf("%d bytes for %v", len(out), query)
		}
	})
}

// FuzzCache tests that a cached answer is returned for its question only, with the query's ID and
// no longer TTL than it had, and that the cache stays within its bounds.
func FuzzCache(f *testing.F) {
	query := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
	reply := new(dns.Msg).SetReply(query)
	reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "www.example.com.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
	packed, err := reply.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed, uint8(1))
	f.Add(packed, uint8(200))
	f.Add([]byte{0, 1, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}, uint8(0))
	f.Fuzz(func(t *testing.T, packet []byte, later uint8) {
		m := new(dns.Msg)
		if m.Unpack(packet) != nil || len(m.Question) != 1 {
			return
		}
		now := time.Unix(1000, 0)
		c := newCache(func() time.Time { return now })
		query := new(dns.Msg)
		query.Question, query.RecursionDesired, query.Id = m.Question, m.RecursionDesired, 7
		c.store(query, m)
		if len(c.entries) > 1 {
			t.Fatalf("%d answers are kept", len(c.entries))
		}
		now = now.Add(time.Duration(later) * time.Second)
		query.Id = 9
		got, ok := c.lookup(query)
		if !ok {
			return
		}
		if got.Id != 9 || len(got.Question) != 1 || m.Len() > maxCachedSize {
			t.Errorf("the answer is %v", got)
		}
		was := ttlRecords(m)
		for i, r := range ttlRecords(got) {
			if r.Header().Ttl > was[i].Header().Ttl {
				t.Errorf("the TTL of %v has grown from %d", r, was[i].Header().Ttl)
			}
		}
		other := new(dns.Msg).SetQuestion("another.example.", dns.TypeTXT)
		if _, ok := c.lookup(other); ok && newCacheKey(other) != newCacheKey(query) {
			t.Error("the cached answer is returned for another question")
		}
	})
}
