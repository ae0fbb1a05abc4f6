package discovery

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/source/hostname"
)

// newNames makes the feed of what the names of networks' gateways stand for, nil if they are not to be resolved.
func (s *server) newNames() *hostname.Source {
	if s.options.Remote.KeepGatewayNames {
		return nil
	}
	lookup := s.options.Remote.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	return hostname.New(hostname.Options{
		Lookup: lookup, Refresh: s.options.Remote.GatewayRefresh, Log: s.logs.Scope("model"), Failed: s.metrics.m.Clusters.NameErrors.Inc,
	})
}

// waitingFor is told which feeds are not in sync yet. Which names are to be resolved is known when all others are; that of names is
// named only then.
func (s *server) waitingFor(feeds []string) {
	if s.names != nil {
		switch others := slices.DeleteFunc(slices.Clone(feeds), func(f string) bool { return f == s.names.Name() }); {
		case len(feeds) == 0:
		case len(others) > 0:
			feeds = others
		default:
			s.names.SetFinalNames(s.builder.Current().NamesToResolve())
		}
	}
	s.ready.waitingFor(feeds)
}
