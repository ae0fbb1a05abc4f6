package rebinding

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// resolver answers names of the form "KIND-N.test". It counts the answers that had a forbidden address.
type resolver struct {
	mu        sync.Mutex
	asked     map[string]int // by name and type
	forbidden int
	next      int
}

// startResolver serves DNS on the address of /etc/resolv.conf until the test ends.
func startResolver(t *testing.T) *resolver {
	t.Helper()
	r := &resolver{asked: map[string]int{}}
	conn, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: r}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.Shutdown() })
	return r
}

// ServeDNS answers a question. Nothing may be cached: every TTL is 0.
func (r *resolver) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	question := q.Question[0]
	name := strings.ToLower(question.Name)
	addresses := r.addresses(name, question.Qtype)
	for i, from := range chain(name) {
		to := chain(name)[i:][0]
		if i+1 < len(chain(name)) {
			to = chain(name)[i+1]
			m.Answer = append(m.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: from, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: to})
			continue
		}
		for _, a := range addresses {
			m.Answer = append(m.Answer, record(to, a))
		}
	}
	_ = w.WriteMsg(m) // the client may have disconnected
}

// chain returns the names that lead to an address: several for "cname-N.test".
func chain(name string) []string {
	if strings.HasPrefix(name, "cname-") {
		return []string{name, "a." + name, "b." + name, "c." + name}
	}
	return []string{name}
}

func record(name string, a netip.Addr) dns.RR {
	header := dns.RR_Header{Name: name, Class: dns.ClassINET}
	if a.Is4() {
		header.Rrtype = dns.TypeA
		return &dns.A{Hdr: header, A: a.AsSlice()}
	}
	header.Rrtype = dns.TypeAAAA
	b := a.As16()
	return &dns.AAAA{Hdr: header, AAAA: b[:]}
}

// addresses returns the answer to one question. A name that flips has an allowed address at first, and forbidden ones later.
func (r *resolver) addresses(name string, kind uint16) (list []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := name + dns.TypeToString[kind]
	r.asked[key]++
	bad := r.bad(kind)
	switch what, _, _ := strings.Cut(name, "-"); what {
	case "good":
		if kind == dns.TypeA {
			return []netip.Addr{allowed4}
		}
		return nil
	case "flip", "cname": // allowed for one question, then forbidden, and again
		if r.asked[key]%2 == 1 {
			list = allowedOf(kind)
		} else {
			list = bad
		}
	case "both":
		list = append(allowedOf(kind), bad...)
	case "late": // the first kind of address is good, the other bad
		if kind == dns.TypeA {
			list = allowedOf(kind)
		} else {
			list = bad
		}
	default: // "bad"
		list = bad
	}
	for _, a := range list {
		if a != allowed4 && a != allowed6 {
			r.forbidden++
		}
	}
	return list
}

func allowedOf(kind uint16) []netip.Addr {
	switch kind {
	case dns.TypeA:
		return []netip.Addr{allowed4}
	case dns.TypeAAAA:
		return []netip.Addr{allowed6}
	default:
		return nil
	}
}

// bad returns a forbidden address of a kind, another each time.
func (r *resolver) bad(kind uint16) (list []netip.Addr) {
	for _, a := range forbidden() {
		if (kind == dns.TypeA) == a.Is4() && (kind == dns.TypeA || kind == dns.TypeAAAA) {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil
	}
	r.next++
	return list[r.next%len(list) : r.next%len(list)+1]
}

func (r *resolver) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forbidden
}
