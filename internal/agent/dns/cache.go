package dns

import (
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxCached bounds the number of cached answers, maxCacheTTL how long one is cached even if its
	// TTL is longer.
	maxCached   = 4096
	maxCacheTTL = 5 * time.Minute
	// maxCachedSize bounds the size of a cached answer, in bytes.
	maxCachedSize = 4096
)

// cacheKey holds all parts of a query on which the answer depends.
type cacheKey struct {
	name        string
	kind, class uint16
	// The flags DO (DNSSEC records requested), CD (checking disabled) and RD (recursion desired).
	secure, unchecked, recursive bool
}

// newCacheKey returns the key of a query: its name in lower case, type, class and the flags that
// affect the answer. The query must have a question.
func newCacheKey(query *dns.Msg) cacheKey {
	q := query.Question[0]
	option := query.IsEdns0()
	return cacheKey{
		name: strings.ToLower(q.Name), kind: q.Qtype, class: q.Qclass,
		secure: option != nil && option.Do(), unchecked: query.CheckingDisabled, recursive: query.RecursionDesired,
	}
}

// cacheEntry is a cached answer that is valid until expires.
type cacheEntry struct {
	reply           *dns.Msg
	stored, expires time.Time
}

// cache stores answers of upstream servers for their TTL.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[cacheKey]cacheEntry
}

// newCache returns an empty cache. now is its clock.
func newCache(now func() time.Time) *cache {
	return &cache{now: now, entries: map[cacheKey]cacheEntry{}}
}

// lookup returns a copy of the cached answer to the query, with the query's ID and question, and
// with TTLs reduced by its age. It returns false if there is none that has not expired.
func (c *cache) lookup(query *dns.Msg) (*dns.Msg, bool) {
	now := c.now()
	c.mu.Lock()
	kept, ok := c.entries[newCacheKey(query)]
	c.mu.Unlock()
	if !ok || !now.Before(kept.expires) {
		return nil, false
	}
	reply := kept.reply.Copy()
	reply.Id = query.Id
	reply.Question = query.Question // in the query's spelling
	age := uint32(now.Sub(kept.stored) / time.Second)
	for _, r := range ttlRecords(reply) {
		r.Header().Ttl -= min(age, r.Header().Ttl)
	}
	return reply, true
}

// store caches a copy of an answer. It does nothing if the answer must not be cached or is larger
// than maxCachedSize. A full cache evicts others first.
func (c *cache) store(query, reply *dns.Msg) {
	life := cacheTTL(reply)
	if life <= 0 || reply.Len() > maxCachedSize {
		return
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxCached {
		c.evict(now)
	}
	c.entries[newCacheKey(query)] = cacheEntry{reply: reply.Copy(), stored: now, expires: now.Add(life)}
}

// evict removes all expired answers, and then arbitrary ones until an eighth of the cache is free.
// mu must be held.
func (c *cache) evict(now time.Time) {
	for q, kept := range c.entries {
		if !now.Before(kept.expires) {
			delete(c.entries, q)
		}
	}
	for q := range c.entries {
		if len(c.entries) <= maxCached*7/8 {
			return
		}
		delete(c.entries, q)
	}
}

// cacheTTL returns how long an answer may be cached: the shortest TTL in it, at most maxCacheTTL. A
// negative answer has at most the zone's minimum (RFC 2308), and 0 without SOA record. It also
// returns 0 for a truncated answer, an error other than NXDOMAIN, and an answer without any TTL.
func cacheTTL(reply *dns.Msg) time.Duration {
	if reply.Truncated || reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return 0
	}
	least, any := uint32(maxCacheTTL/time.Second), false
	for _, r := range ttlRecords(reply) {
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

// ttlRecords returns all records of m except OPT, which has no TTL. The records are m's own, not
// copies.
func ttlRecords(m *dns.Msg) []dns.RR {
	list := make([]dns.RR, 0, len(m.Answer)+len(m.Ns)+len(m.Extra))
	list = append(append(list, m.Answer...), m.Ns...)
	for _, r := range m.Extra {
		if r.Header().Rrtype != dns.TypeOPT {
			list = append(list, r)
		}
	}
	return list
}
