package authorization

import (
	"fmt"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/view"
)

type protoMessage = proto.Message

// service is where an authorizer is to a View.
type service = destination.Provider

// providersOf writes where the authorizers of the policies are to a View: for each "name\x01host\x01port\x01fault\n".
func providersOf(v *view.View, policies []*config.Config) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, c := range policies {
		name := config.Spec[*security.AuthorizationPolicy](c).GetProvider().GetName()
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		for _, p := range v.Settings.Mesh.GetExtensionProviders() {
			if p.GetName() != name {
				continue
			}
			type served interface {
				GetService() string
				GetPort() uint32
			}
			var at served = p.GetEnvoyExtAuthzHttp()
			if g := p.GetEnvoyExtAuthzGrpc(); g != nil {
				at = g
			}
			s := destination.ProviderOf(v, at.GetService(), at.GetPort())
			fmt.Fprintf(&b, "%s\x01%s\x01%d\x01%s\n", name, s.Host, s.Port, s.Fault)
			break
		}
	}
	return b.String()
}

func readProviders(text string) map[string]service {
	services := map[string]service{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\x01", 4)
		if len(parts) < 4 {
			continue
		}
		port, _ := strconv.ParseUint(parts[2], 10, 32)
		services[parts[0]] = service{Host: parts[1], Port: uint32(port), Fault: parts[3]}
	}
	return services
}
