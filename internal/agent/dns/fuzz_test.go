package dns

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// FuzzPackets answers any packet that the library reads as a query, as the sockets' handlers do: there is always an answer to it, which
// can be written, is no longer than the client takes, and is to what was asked.
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
	s, err := Open(Options{Names: NamesOf("shop", "shop.svc.cluster.local"), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Timeout: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	s.Update(shop())
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody else is asked
	f.Fuzz(func(t *testing.T, packet []byte, overTCP bool) {
		query := new(dns.Msg)
		if query.Unpack(packet) != nil {
			return
		}
		reply := s.reply(ctx, query, overTCP)
		fit(reply, query, overTCP)
		out, err := reply.Pack()
		if err != nil || reply.Id != query.Id || !reply.Response {
			t.Fatalf("%v is answered by %v, %v", query, reply, err)
		}
		if room := 512; !overTCP && query.IsEdns0() == nil && len(out) > room {
			t.Errorf("%d bytes for %v", len(out), query)
		}
	})
}
