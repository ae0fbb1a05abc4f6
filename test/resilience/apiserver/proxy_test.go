package apiserver

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// proxy is a simulated sidecar, with what these tests wait for.
type proxy struct{ *sidecar.Proxy }

// connect connects a sidecar of a namespace.
func (p *controlPlane) connect(namespace, ip string) proxy {
	p.t.Helper()
	return proxy{sidecar.Connect(p.t, p.GRPC, sidecar.Node("client", namespace, ip, nil))}
}

// endpoints checks the addresses that a cluster has.
func (x proxy) endpoints(cluster string, want ...string) func() error {
	return func() error {
		if got := x.Addresses(cluster); !slices.Equal(got, want) {
			return fmt.Errorf("%s has endpoints %v, want %v", cluster, got, want)
		}
		return nil
	}
}

// has checks that a resource exists, or that it does not.
func (x proxy) has(typeURL, name string, want bool) func() error {
	return func() error {
		if there := slices.Contains(x.ResourceNames(typeURL), name); there != want {
			return fmt.Errorf("%s %s: there: %v", api.ShortType(typeURL), name, there)
		}
		return nil
	}
}
