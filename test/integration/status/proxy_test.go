package status

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// connect connects a sidecar of the test's namespace.
func (r *replica) connect(name, ip string, metadata map[string]any) *sidecar.Proxy {
	r.l.Helper()
	return sidecar.Connect(r.l, r.GRPC, sidecar.Node(name, r.l.shop, ip, metadata))
}

// served checks that sidecars have something of each type.
func served(types []string, proxies ...*sidecar.Proxy) error {
	for _, p := range proxies {
		for _, typeURL := range types {
			if len(p.ResourceNames(typeURL)) == 0 {
				return fmt.Errorf("it has no %s", api.ShortType(typeURL))
			}
		}
	}
	return nil
}
