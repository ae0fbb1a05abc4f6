package mesh

import "slices"

// ResolvedName is what a DNS name stands for: that of a gateway of a network, which callers are told the addresses of.
type ResolvedName struct {
	Name string
	// Addresses are IPs, sorted. There is at least one.
	Addresses []string
}

// Equal says that two say the same; nil says nothing.
func (r *ResolvedName) Equal(o *ResolvedName) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Name == o.Name && slices.Equal(r.Addresses, o.Addresses)
}
