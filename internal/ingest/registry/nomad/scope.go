package nomad

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// scope is the state of one namespace. It belongs to the goroutine that follows the namespace.
type scope struct {
	namespace string
	// last is what was read last and changed by events since. It stays while Nomad cannot be read.
	// It is nil before the namespace was read.
	last *listing
	// denied reports whether the token may no longer read the namespace.
	denied bool
}

// listing is what is registered in a namespace.
type listing struct {
	// index is that of the list of names, highest that of the newest answer.
	index, highest uint64
	// services are the services by name. One without instances is not registered any more.
	services map[string]*service
}

// service is the registrations of a service, by ID.
type service struct {
	// index is that of the answer with the registrations: later events are not in it.
	index     uint64
	instances map[string]registration
	// unreadable is why the answer cannot be used, or nil.
	unreadable error
}

// read reads all services of a namespace. It returns an error if one cannot be read. A service
// whose registrations are malformed is unreadable instead.
func read(ctx context.Context, c *client, namespace string) (*listing, error) {
	body, index, err := c.get(ctx, pathServices, namespace)
	if err != nil {
		return nil, err
	}
	names, err := parseNames(body, namespace)
	if err != nil {
		return nil, err
	}
	l := &listing{index: index, highest: index, services: map[string]*service{}}
	return l, l.readServices(ctx, c, namespace, names)
}

// readServices reads services into l. It returns an error, and changes nothing, if one cannot be
// read, or if its index is lower than another before: then the servers may have lost data.
func (l *listing) readServices(ctx context.Context, c *client, namespace string, names []string) error {
	list := make([]*service, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clienttls.MaxConcurrent)
	for i, name := range names {
		group.Go(func() error {
			return recovery.Call(ctx, "platform", func() (err error) {
				list[i], err = readService(ctx, c, namespace, name)
				return err
			}, "service", name)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, name := range names {
		if list[i].index < l.highest {
			return fmt.Errorf("service %s: index %d is lower than %d before", name, list[i].index, l.highest)
		}
	}
	for i, name := range names {
		l.services[name], l.highest = list[i], max(l.highest, list[i].index)
	}
	return nil
}

// readService reads the registrations of a service. It returns an error if the request fails
// (client.get); registrations that are malformed make the service unreadable instead.
func readService(ctx context.Context, c *client, namespace, name string) (*service, error) {
	body, index, err := c.get(ctx, pathService+url.PathEscape(name), namespace)
	if err != nil {
		return nil, err
	}
	instances, err := parseRegistrations(body)
	return &service{index: index, instances: instances, unreadable: err}, nil
}

// mayHaveLost returns why the servers that answered with next may have lost data that they had at
// last, or nil. The reasons are an index of the services that is lower than before, or known
// registrations of which none is listed with its ID and index of creation. It returns nil if
// nothing was read before.
func (s *scope) mayHaveLost(next *listing) error {
	if s.last == nil {
		return nil
	}
	if next.index < s.last.highest {
		return fmt.Errorf("namespace %s: index %d is lower than %d before", s.namespace, next.index, s.last.highest)
	}
	known := false
	for name, old := range s.last.services {
		for id, r := range old.instances {
			known = true
			if now := next.services[name]; now == nil {
				continue
			} else if i, listed := now.instances[id]; listed && i.CreateIndex == r.CreateIndex {
				return nil
			}
		}
	}
	if !known {
		return nil
	}
	return fmt.Errorf("namespace %s: none of the known registrations is listed", s.namespace)
}

// changed returns the services of events that are later than what is known of them, sorted. An
// unknown service is compared with the index of the list.
func (l *listing) changed(events []event) []string {
	names := map[string]bool{}
	for _, e := range events {
		known := l.index
		if s := l.services[e.service]; s != nil {
			known = s.index
		}
		if e.index > known {
			names[e.service] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
