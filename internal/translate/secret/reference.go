package secret

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reference is a field that names a credential.
type reference struct {
	from  *config.Config
	field string
	name  mesh.SecretName
	// external is set if the Secret is used only by proxies without an SDS server of the user
	// (mesh.ExternalPrefix), so that it may be missing.
	external bool
}

// keys returns the objects that it may refer to: the credential, and its trusted certificates.
func (r reference) keys() []config.Key {
	return append(objectKeys(r.name), objectKeys(mesh.TrustOf(r.name))...)
}

// references are all references of a snapshot, in the order of the objects, and the objects that
// they may refer to.
type references struct {
	list []reference
	keys map[config.Key]bool
}

// includes reports whether a field may refer to the object. A name without a namespace refers to
// the namespace of the proxies, which is unknown here, so it may be any.
func (r references) includes(k config.Key) bool {
	k = localKey(k)
	return r.keys[k] || r.keys[config.Key{Kind: k.Kind, Name: k.Name}]
}

// missing returns a Warning for each field that names a credential without an object in s, or
// nil. External credentials are left out, because an SDS server of the user may have them.
// Objects that no proxy may receive are not read (source/credential), so they are not in s:
// fields that name them get a Warning too, although the objects may exist.
func (r references) missing(s *snapshot.Snapshot) []config.Problem {
	there := map[config.Key]bool{}
	for _, c := range slices.Concat(s.Configs(api.Secret), s.Configs(api.RemoteSecret), s.Configs(api.ConfigMap)) {
		k := localKey(c.Key)
		there[k] = true
		there[config.Key{Kind: k.Kind, Name: k.Name}] = true
	}
	var list []config.Problem
	for _, x := range r.list {
		if !x.external && !slices.ContainsFunc(x.keys(), func(k config.Key) bool { return there[k] }) {
			want := x.keys()[0]
			where := fmt.Sprintf("the namespace %s, or unset", want.Namespace)
			if want.Namespace == "" {
				// A frequent mistake: the object is in the namespace of the Gateway.
				where = "the namespace of the selected proxies, or unset"
			}
			list = append(list, config.Problem{
				Code: code.ReferencedResourceNotFound,
				Key:  x.from.Key, Field: x.field, Severity: config.Warning, Origin: x.from.Origin,
				Reason: fmt.Sprintf("there is no %s %q in %s", want.Kind, want.Name, where),
			})
		}
	}
	return list
}

// referencesOf returns the fields of Gateways and then DestinationRules that refer to credentials;
// names that are not of a credential are skipped. For DestinationRules these include the
// credentials of backends that were converted from the Gateway API, with an empty field.
func referencesOf(s *snapshot.Snapshot) references {
	r := references{keys: map[config.Key]bool{}}
	for _, c := range s.Configs(api.Gateway) {
		for i, server := range config.Spec[*networking.Gateway](c).GetServers() {
			field := fmt.Sprintf("spec.servers[%d].tls.", i)
			r.addReference(c, field+"credentialName", server.GetTls().GetCredentialName())
			for j, name := range server.GetTls().GetCredentialNames() {
				r.addReference(c, fmt.Sprintf("%scredentialNames[%d]", field, j), name)
			}
			r.addReference(c, field+"caCertCredentialName", server.GetTls().GetCaCertCredentialName())
		}
	}
	for _, c := range s.Configs(api.DestinationRule) {
		for field, p := range config.TrafficPolicies(config.Spec[*networking.DestinationRule](c)) {
			r.addPolicy(c, field, p)
		}
		if c.Extension != nil {
			for _, x := range c.Extension.BackendTLS {
				r.addReference(c, "", x.CredentialName)
				r.addReference(c, "", x.ClientCredential)
			}
		}
	}
	return r
}

// addPolicy adds the credentials that a traffic policy and its port level settings name; field is
// the path of p.
func (r *references) addPolicy(c *config.Config, field string, p *networking.TrafficPolicy) {
	r.addReference(c, field+".tls.credentialName", p.GetTls().GetCredentialName())
	for i, port := range p.GetPortLevelSettings() {
		r.addReference(
			c,
			fmt.Sprintf("%s.portLevelSettings[%d].tls.credentialName", field, i),
			port.GetTls().GetCredentialName(),
		)
	}
}

// addReference adds that a field of c names a credential. An external credential refers to the
// Secret that replaces it. It ignores names that are not of a credential, such as "".
func (r *references) addReference(c *config.Config, field, credential string) {
	credential, external := strings.CutPrefix(credential, mesh.ExternalPrefix)
	name, ok := mesh.CredentialName(credential)
	if !ok {
		return
	}
	ref := reference{c, field, name, external}
	r.list = append(r.list, ref)
	for _, k := range ref.keys() {
		r.keys[k] = true
	}
}

// localKey returns the key by which fields refer to an object. For a RemoteSecret that is the key
// of a Secret, without the cluster; for other kinds it is k.
func localKey(k config.Key) config.Key {
	if k.Kind == api.RemoteSecret {
		k.Kind, k.Name = api.Secret, mesh.RemoteSecretName(k.Name)
	}
	return k
}
