package telemetry

import (
	"fmt"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/view"
)

// service is where a provider is to a View.
type service struct {
	// cluster is "" where there is none; fault says why.
	cluster, fault string
	host           string
	port           uint32
}

// authority is what requests to the service are for.
func (s service) authority() string { return s.host + ":" + strconv.FormatUint(uint64(s.port), 10) }

// address is a provider's service as the user names it: "[NAMESPACE/]HOST", and its port.
type address struct {
	name string
	port uint32
}

// addressOf gives the service that a provider of telemetry is; ok false where it is none.
func addressOf(p *provider) (address, bool) {
	type served interface {
		GetService() string
		GetPort() uint32
	}
	var s served
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		s = x.Zipkin
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		s = x.Datadog
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		s = x.Skywalking
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		s = x.Opentelemetry
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		s = x.EnvoyHttpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		s = x.EnvoyTcpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		s = x.EnvoyOtelAls
	default:
		return address{}, false
	}
	return address{s.GetService(), s.GetPort()}, true
}

// samplerName is under what name the service of a provider's sampler is kept beside its own.
func samplerName(provider string) string { return provider + "\x00sampler" }

// servicesOf writes what the services of all providers are to a View: for each "name\x01host\x01port\x01fault\n".
func servicesOf(v *view.View) string {
	var b strings.Builder
	for _, p := range v.Settings.Mesh.GetExtensionProviders() {
		if a, ok := addressOf(p); ok {
			write(&b, p.GetName(), lookUp(v, a))
		}
		if api := p.GetOpentelemetry().GetDynatraceSampler().GetHttpService(); api.GetService() != "" {
			write(&b, samplerName(p.GetName()), lookUp(v, address{api.GetService(), api.GetPort()}))
		}
	}
	return b.String()
}

func write(b *strings.Builder, name string, s service) {
	fmt.Fprintf(b, "%s\x01%s\x01%d\x01%s\n", name, s.host, s.port, s.fault)
}

func readServices(text string) map[string]service {
	services := map[string]service{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "\x01", 4)
		if _, taken := services[parts[0]]; len(parts) < 4 || taken {
			continue
		}
		port, _ := strconv.ParseUint(parts[2], 10, 32)
		p := destination.Provider{Host: parts[1], Port: uint32(port), Fault: parts[3]}
		services[parts[0]] = service{cluster: p.Cluster(), fault: p.Fault, host: p.Host, port: p.Port}
	}
	return services
}

// lookUp finds a service as the View sees it.
func lookUp(v *view.View, a address) service {
	p := destination.ProviderOf(v, a.name, a.port)
	return service{cluster: p.Cluster(), fault: p.Fault, host: p.Host, port: p.Port}
}
