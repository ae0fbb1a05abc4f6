package dns

import (
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxCached bounds the answers that are kept, maxLife how long in spite of a longer TTL.
	maxCached = 4096
	maxLife   = 5 * time.Minute
	// maxCachedSize bounds one of them, in bytes.
	maxCachedSize = 4096
)

// question is what an answer is kept by.
type question struct {
	name        string
	kind, class uint16
	// secure is whether signatures are asked for, unchecked that they are not to be looked at; recursive is what most want.
	secure, unchecked, recursive bool
}

func questionOf(query *dns.Msg) question {
	q := query.Question[0]
	out := question{name: strings.ToLower(q.Name), kind: q.Qtype, class: q.Qclass, unchecked: query.CheckingDisabled, recursive: query.RecursionDesired}
	if option := query.IsEdns0(); option != nil {
		out.secure = option.Do()
	}
	return out
}

// cached is an answer that is good until expires.
type cached struct {
	reply           *dns.Msg
	stored, expires time.Time
}

// cache keeps answers of other servers for as long as their TTLs say.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	answers map[question]cached
}

func newCache(now func() time.Time) *cache { return &cache{now: now, answers: map[question]cached{}} }

// get gives an answer for the query, with what is left of its TTLs.
func (c *cache) get(query *dns.Msg) (*dns.Msg, bool) {
	now := c.now()
	c.mu.Lock()
	kept, ok := c.answers[questionOf(query)]
	c.mu.Unlock()
	if !ok || !now.Before(kept.expires) {
		return nil, false
	}
	reply := kept.reply.Copy()
	reply.Id = query.Id
	reply.Question = query.Question // spelled as it was asked
	age := uint32(now.Sub(kept.stored) / time.Second)
	for _, r := range records(reply) {
		r.Header().Ttl -= min(age, r.Header().Ttl)
	}
	return reply, true
}

// put keeps an answer, if it may be kept.
func (c *cache) put(query, reply *dns.Msg) {
	life := lifeOf(reply)
	if life <= 0 || reply.Len() > maxCachedSize {
		return
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= maxCached {
		c.makeRoom(now)
	}
	c.answers[questionOf(query)] = cached{reply: reply.Copy(), stored: now, expires: now.Add(life)}
}

// makeRoom drops what has expired or, if that is nothing, any eighth.
func (c *cache) makeRoom(now time.Time) {
	for q, kept := range c.answers {
		if !now.Before(kept.expires) {
			delete(c.answers, q)
		}
	}
	for q := range c.answers {
		if len(c.answers) <= maxCached*7/8 {
			return
		}
		delete(c.answers, q)
	}
}

// lifeOf is how long an answer may be kept: the shortest TTL in it or, if it has no answer, what the zone says of such (RFC 2308).
func lifeOf(reply *dns.Msg) time.Duration {
	if reply.Truncated || reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return 0
	}
	least, any := uint32(maxLife/time.Second), false
	for _, r := range records(reply) {
		any = true
		least = min(least, r.Header().Ttl)
	}
	if len(reply.Answer) == 0 {
		any = false
		for _, r := range reply.Ns {
			if soa, ok := r.(*dns.SOA); ok {
				any = true
				least = min(least, soa.Minttl)
			}
		}
	}
	if !any {
		return 0
	}
	return time.Duration(least) * time.Second
}

// records are all but the option record, whose TTL is none.
func records(m *dns.Msg) []dns.RR {
	list := make([]dns.RR, 0, len(m.Answer)+len(m.Ns)+len(m.Extra))
	list = append(append(list, m.Answer...), m.Ns...)
	for _, r := range m.Extra {
		if r.Header().Rrtype != dns.TypeOPT {
			list = append(list, r)
		}
	}
	return list
}
