package destination

import (
	"fmt"
	"iter"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Provider is the service of an extension provider, as one View sees it.
type Provider struct {
	Host string
	Port uint32
	// Fault is the reason why the provider has no cluster, or "" if it has one. Envoy refuses
	// listeners with filters whose cluster does not exist.
	Fault string
}

// NamedProvider is a provider with the name by which objects reference it. It is comparable, so
// that keys of caches can contain it.
type NamedProvider struct {
	Name string
	Provider
}

// ProvidersByName returns the providers by name. Of several with one name, the first is used.
func ProvidersByName(list iter.Seq[NamedProvider]) map[string]Provider {
	byName := map[string]Provider{}
	for p := range list {
		if _, taken := byName[p.Name]; !taken {
			byName[p.Name] = p.Provider
		}
	}
	return byName
}

// ProviderOf looks up the service of a provider by the name in MeshConfig, "[NAMESPACE/]HOST". If
// the View has no such service or port, or the service is an alias, the result has a Fault. It also
// has one, as in istiod, if name has no namespace and services of several namespaces have the host,
// whether the View sees them or not: a ServiceEntry must not replace a provider in its namespace.
func ProviderOf(v *view.View, name string, port uint32) Provider {
	namespace, host, found := strings.Cut(name, "/")
	if !found {
		namespace, host = "", name
	}
	p := Provider{Host: host, Port: port}
	svc := v.Service(mesh.Hostname(host))
	namespaces := v.Snapshot.NamespacesOf(mesh.Hostname(host))
	switch {
	case svc == nil || found && svc.Namespace != namespace:
		p.Fault = fmt.Sprintf("proxies of namespace %s see no service %q", v.Key.Namespace, name)
	case !found && len(namespaces) > 1:
		p.Fault = fmt.Sprintf("service %q is ambiguous: namespaces %s have one", name, strings.Join(namespaces, ", "))
	case svc.Resolution == mesh.Alias:
		p.Fault = fmt.Sprintf("service %q is only another name of one: name that", name)
	default:
		if _, has := svc.Port(port); !has {
			p.Fault = fmt.Sprintf("service %q has no port %d", name, port)
		}
	}
	return p
}

// Cluster returns the name of the provider's cluster, or "" if it has a Fault.
func (p Provider) Cluster() string {
	if p.Fault != "" {
		return ""
	}
	return mesh.ClusterName{Direction: mesh.Outbound, Port: p.Port, Host: mesh.Hostname(p.Host)}.String()
}
