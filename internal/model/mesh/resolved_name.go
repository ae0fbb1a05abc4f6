package mesh

import "slices"

// ResolvedName contains the addresses of a DNS name of a network gateway, which proxies receive
// instead of the name.
type ResolvedName struct {
	Name string
	// Addresses are IP addresses, sorted. There is at least one.
	Addresses []string
}

// Equal reports whether both have the same name and the same addresses in the same order. Two nil
// values are equal.
func (r *ResolvedName) Equal(o *ResolvedName) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Name == o.Name && slices.Equal(r.Addresses, o.Addresses)
}
