package secret

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reference is a field that names a credential.
type reference struct {
	from  *config.Config
	field string
	name  mesh.SecretName
}

// keys gives the objects that it may stand for: those of the credential itself, and of the certificates to trust with it.
func (r reference) keys() []config.Key { return append(keys(r.name), keys(mesh.TrustOf(r.name))...) }

// references are those of a snapshot, in the order of the objects, and by the objects that they may stand for.
type references struct {
	list []reference
	keys map[config.Key]bool
}

// to says whether some field may mean the object. A name without a namespace means an object of the proxies' namespace,
// which fields do not know: it may be any.
func (r references) to(k config.Key) bool {
	k = local(k)
	return r.keys[k] || r.keys[config.Key{Kind: k.Kind, Name: k.Name}]
}

// missing gives a Problem for each field that means no object at all. Objects that no proxy may have are not read (source/credential),
// so they may be there.
func (r references) missing(s *snapshot.Snapshot) []config.Problem {
	there := map[config.Key]bool{}
	for _, c := range slices.Concat(s.Configs(api.Secret), s.Configs(api.RemoteSecret), s.Configs(api.ConfigMap)) {
		k := local(c.Key)
		there[k] = true
		there[config.Key{Kind: k.Kind, Name: k.Name}] = true
	}
	var list []config.Problem
	for _, x := range r.list {
		if !slices.ContainsFunc(x.keys(), func(k config.Key) bool { return there[k] }) {
			want := x.keys()[0]
			where := fmt.Sprintf("the namespace %s, or none that proxies may have", want.Namespace)
			if want.Namespace == "" {
				where = "the namespace of the proxies that this is for, or none that they may have" // often it was put into that of the Gateway
			}
			list = append(list, config.Problem{
				Key: x.from.Key, Field: x.field, Severity: config.Warning, Origin: x.from.Origin,
				Reason: fmt.Sprintf("there is no %s %q in %s", want.Kind, want.Name, where),
			})
		}
	}
	return list
}

func referencesOf(s *snapshot.Snapshot) references {
	r := references{keys: map[config.Key]bool{}}
	for _, c := range s.Configs(api.Gateway) {
		for i, server := range config.Spec[*networking.Gateway](c).GetServers() {
			field := fmt.Sprintf("spec.servers[%d].tls.", i)
			r.add(c, field+"credentialName", server.GetTls().GetCredentialName())
			for j, name := range server.GetTls().GetCredentialNames() {
				r.add(c, fmt.Sprintf("%scredentialNames[%d]", field, j), name)
			}
			r.add(c, field+"caCertCredentialName", server.GetTls().GetCaCertCredentialName())
		}
	}
	for _, c := range s.Configs(api.DestinationRule) {
		for field, p := range config.TrafficPolicies(config.Spec[*networking.DestinationRule](c)) {
			r.addPolicy(c, field, p)
		}
	}
	return r
}

func (r *references) addPolicy(c *config.Config, field string, p *networking.TrafficPolicy) {
	r.add(c, field+".tls.credentialName", p.GetTls().GetCredentialName())
	for i, port := range p.GetPortLevelSettings() {
		r.add(c, fmt.Sprintf("%s.portLevelSettings[%d].tls.credentialName", field, i), port.GetTls().GetCredentialName())
	}
}

func (r *references) add(c *config.Config, field, credential string) {
	name, ok := mesh.CredentialName(credential)
	if !ok {
		return
	}
	ref := reference{c, field, name}
	r.list = append(r.list, ref)
	for _, k := range ref.keys() {
		r.keys[k] = true
	}
}

// local gives the key under which fields mean an object: they do not say in which cluster it is.
func local(k config.Key) config.Key {
	if k.Kind == api.RemoteSecret {
		k.Kind, k.Name = api.Secret, mesh.RemoteSecretName(k.Name)
	}
	return k
}
