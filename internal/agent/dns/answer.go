package dns

import (
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// ttl is what the mesh's own answers live for, in seconds. Changes come by push, and a client that keeps an answer misses them.
const ttl = 30

// answer makes the reply to a question about a host of the mesh; nil for types of records that the mesh knows nothing of. An
// address family that the host has not is an empty answer, never "no such name", which would end the search for the other.
func answer(query *dns.Msg, a addresses, alias string, shuffle func(n int, swap func(i, j int))) *dns.Msg {
	q := query.Question[0]
	var addrs []netip.Addr
	switch q.Qtype {
	case dns.TypeA:
		addrs = a.v4
	case dns.TypeAAAA:
		addrs = a.v6
	case dns.TypeANY:
		addrs = append(append(addrs, a.v4...), a.v6...)
	default:
		return nil
	}
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative, reply.RecursionAvailable = true, true
	owner := q.Name
	if alias != "" && len(addrs) > 0 {
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: alias})
		owner = alias
	}
	first := len(reply.Answer)
	for _, addr := range addrs {
		reply.Answer = append(reply.Answer, record(owner, addr))
	}
	rest := reply.Answer[first:]
	shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return reply
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

func record(name string, addr netip.Addr) dns.RR {
	if addr.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA), A: net.IP(addr.AsSlice())}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: net.IP(addr.AsSlice())}
}

// failure is the reply to a query that nobody could answer.
func failure(query *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(query, dns.RcodeServerFailure) }

// fit cuts a reply to what the client takes (RFC 6891, section 6.2.3).
func fit(reply, query *dns.Msg, overTCP bool) {
	size := dns.MinMsgSize
	if overTCP {
		size = dns.MaxMsgSize
	} else if option := query.IsEdns0(); option != nil {
		size = max(size, int(option.UDPSize()))
	}
	reply.Truncate(size)
}
