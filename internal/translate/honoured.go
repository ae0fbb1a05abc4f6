package translate

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/route"
)

// Unhonoured gives what of an object's spec the generators do not follow, as Warnings without Key and Origin. A kind that
// is not in the list shapes nothing here, or is followed whole.
func Unhonoured(c *config.Config) []config.Problem {
	switch c.Kind {
	case api.DestinationRule:
		return cluster.Unhonoured(config.Spec[*networking.DestinationRule](c))
	case api.VirtualService:
		return route.Unhonoured(config.Spec[*networking.VirtualService](c))
	case api.Sidecar:
		return listener.UnhonouredSidecar(config.Spec[*networking.Sidecar](c))
	default:
		return nil
	}
}
