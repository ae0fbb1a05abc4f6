package hostname

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
)

// lookUp returns the addresses of a name, sorted and without duplicates, zones and the IPv4-mapped
// form. It returns an error if there are none, or the lookup fails or exceeds lookupTimeout.
func (s *Source) lookUp(ctx context.Context, name string) ([]string, error) {
	limit, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := s.o.Lookup(limit, name)
	if err != nil {
		return nil, err
	}
	for i, a := range found {
		found[i] = a.Unmap().WithZone("")
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	list := make([]string, 0, len(found))
	for _, a := range found {
		list = append(list, a.String())
	}
	if len(list) == 0 {
		return nil, errors.New("the name has no address")
	}
	return list, nil
}

// failureReason returns why a name cannot be resolved, and the consequence; known are its last
// addresses. The text does not change between attempts. A timeout and a missing name have texts of
// their own.
func failureReason(known []string, err error) string {
	why := "cannot be resolved"
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		why = "there is no such name"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		why = "no name server answers"
	}
	if len(known) == 0 {
		return why + ": no endpoints are sent for its network"
	}
	return why + ": its last addresses stay in use"
}
