package hostname

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
)

// lookup gives the addresses of a name, sorted, each once.
func (s *Source) lookup(ctx context.Context, name string) ([]string, error) {
	limit, cancel := context.WithTimeout(ctx, lookupPatience)
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

// reason says why a name cannot be resolved, and what that means, in words that are the same for each attempt.
func reason(known []string, err error) string {
	why := "cannot be resolved"
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		why = "there is no such name"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		why = "no name server answers"
	}
	if len(known) == 0 {
		return why + ": nobody is sent there"
	}
	return why + ": its last addresses stay in use"
}
