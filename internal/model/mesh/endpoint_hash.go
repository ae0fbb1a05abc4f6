package mesh

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// HashEndpoints returns the content hash of a list of endpoints, which depends on their order. It
// hashes each field explicitly instead of encoding JSON, because it runs on every change of an
// endpoint.
func HashEndpoints(list []*Endpoint) uint64 {
	d := xxhash.New()
	var buf []byte
	for _, e := range list {
		buf = e.append(buf[:0])
		_, _ = d.Write(buf) // never fails
	}
	return d.Sum64()
}

// append appends an unambiguous encoding of all fields to b, for hashing: strings end with 0, lists
// with 1, numbers have four bytes. Labels are sorted by key, the other addresses keep their order.
func (e *Endpoint) append(b []byte) []byte {
	text := func(s string) { b = append(append(b, s...), 0) }
	number := func(n uint32) { b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24)) }
	for _, s := range [...]string{
		e.Address, e.ServicePort, e.Account, e.Workload, e.Owner, e.Namespace, e.Hostname, e.Node,
		e.Locality.Region, e.Locality.Zone, e.Locality.SubZone, string(e.Network), string(e.Cluster), string(e.Health),
	} {
		text(s)
	}
	number(e.Port)
	number(e.Weight)
	tls := byte(0)
	if e.TLS {
		tls = 1
	}
	if e.Confined {
		tls |= 2
	}
	if e.TLSDisabled {
		tls |= 4
	}
	b = append(b, tls)
	for _, a := range e.MoreAddresses {
		text(a)
	}
	b = append(b, 1)
	keys := make([]string, 0, len(e.Labels))
	for k := range e.Labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		text(k)
		text(e.Labels[k])
	}
	return append(b, 1)
}
