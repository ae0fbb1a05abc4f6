package destination

import (
	"fmt"
	"iter"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Provider is where the service of an extension provider is to a View.
type Provider struct {
	Host string
	Port uint32
	// Fault says why there is no cluster of it, "" if there is one. Envoy refuses listeners with filters whose cluster it does not
	// have.
	Fault string
}

// NamedProvider is a provider under the name by which it is asked for. It is comparable, and so may be part of a memo's key.
type NamedProvider struct {
	Name string
	Provider
}

// ProvidersByName gives the providers by name; of several of one name the first counts.
func ProvidersByName(list iter.Seq[NamedProvider]) map[string]Provider {
	byName := map[string]Provider{}
	for p := range list {
		if _, taken := byName[p.Name]; !taken {
			byName[p.Name] = p.Provider
		}
	}
	return byName
}

// ProviderOf finds the service of a provider as the user names it, "[NAMESPACE/]HOST", and its port.
func ProviderOf(v *view.View, name string, port uint32) Provider {
	namespace, host, found := strings.Cut(name, "/")
	if !found {
		namespace, host = "", name
	}
	p := Provider{Host: host, Port: port}
	svc := v.Service(mesh.Hostname(host))
	switch {
	case svc == nil || found && svc.Namespace != namespace:
		p.Fault = fmt.Sprintf("proxies of namespace %s see no service %q", v.Key.Namespace, name)
	case svc.Resolution == mesh.Alias:
		p.Fault = fmt.Sprintf("service %q is only another name of one: name that", name)
	default:
		if _, has := svc.Port(port); !has {
			p.Fault = fmt.Sprintf("service %q has no port %d", name, port)
		}
	}
	return p
}

// Cluster is the cluster by which the provider is called, "" if there is none.
func (p Provider) Cluster() string {
	if p.Fault != "" {
		return ""
	}
	return mesh.ClusterName{Direction: mesh.Outbound, Port: p.Port, Host: mesh.Hostname(p.Host)}.String()
}
