package dns

import (
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

// answerTTL is the TTL of the mesh's own answers, in seconds. Changes are pushed to the agent, but
// a client that caches an answer misses them.
const answerTTL = 30

// newAnswer returns the reply to a query for a host of the mesh, with its addresses shuffled. If
// alias is not "", they are the addresses of alias, and a CNAME record of the host refers to it. An
// address family that the host lacks results in an empty answer, never in NXDOMAIN, which would
// stop the lookup of the other family. It returns nil for record types other than A, AAAA and ANY.
func newAnswer(query *dns.Msg, a addresses, alias string, shuffle func(n int, swap func(i, j int))) *dns.Msg {
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
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: rrHeader(owner, dns.TypeCNAME), Target: alias})
		owner = alias
	}
	first := len(reply.Answer)
	for _, addr := range addrs {
		reply.Answer = append(reply.Answer, newRecord(owner, addr))
	}
	rest := reply.Answer[first:]
	shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return reply
}

// rrHeader returns the header of a record with the TTL of all answers.
func rrHeader(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: answerTTL}
}

// newRecord returns the A or AAAA record of an address.
func newRecord(name string, addr netip.Addr) dns.RR {
	if addr.Is4() {
		return &dns.A{Hdr: rrHeader(name, dns.TypeA), A: net.IP(addr.AsSlice())}
	}
	return &dns.AAAA{Hdr: rrHeader(name, dns.TypeAAAA), AAAA: net.IP(addr.AsSlice())}
}

// serverFailure returns a SERVFAIL reply to the query.
func serverFailure(query *dns.Msg) *dns.Msg {
	return new(dns.Msg).SetRcode(query, dns.RcodeServerFailure)
}

// truncateReply truncates a reply in place to the size that the client accepts: over UDP the size
// in the query's EDNS option (RFC 6891, section 6.2.3), at least 512 bytes, over TCP 64 KiB.
func truncateReply(reply, query *dns.Msg, overTCP bool) {
	size := dns.MinMsgSize
	if overTCP {
		size = dns.MaxMsgSize
	} else if option := query.IsEdns0(); option != nil {
		size = max(size, int(option.UDPSize()))
	}
	reply.Truncate(size)
}
