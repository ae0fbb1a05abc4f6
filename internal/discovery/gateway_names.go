package discovery

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/source/hostname"
)

// newNames returns the feed that resolves the DNS names of network gateways, or nil if
// KeepGatewayNames is set.
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

// waitingFor updates readiness with the feeds that are not in sync. The names to resolve are final
// only after all other feeds are in sync. Until then the feed of names is omitted from the list;
// afterwards the final names are passed to it.
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
