package secret

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Generator generates the Secrets that Views' proxies request, and caches each distinct one. It is
// safe for concurrent use.
type Generator struct {
	policy  Policy
	secrets *memo.Table[input, *secret]
}

// NewGenerator returns a Generator with an empty cache that serves only secrets that may permits,
// and all names of files.
func NewGenerator(may Policy) *Generator {
	return &Generator{policy: may, secrets: memo.New(newSecret)}
}

// Scope returns the part of a Key that policies depend on. It has the namespace, cluster and
// service account of the proxies, whether these are verified, and which Gateways select them. The
// Sidecar is part of it only so that the View shares its services with others.
func Scope(k view.Key) view.Key {
	return view.Key{
		AttachedObjects: k.ObjectsFor(view.SecretReader),
		SecretAccess:    k.SecretAccess,
		ServiceAccount:  k.ServiceAccount,
		Namespace:       k.Namespace,
		Location:        view.Location{Cluster: k.Cluster},
	}
}

// Named returns the Secret with a name, or nil if it does not exist, is denied to the View's
// proxies, or is unusable. It returns nil for the names of the agent ("default", "ROOTCA"). The
// name of a mounted file needs no object.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if fileSecret(name) != nil {
		return g.secrets.Get(input{name: name}).resource
	}
	n, err := parseName(v, name)
	if err != nil || !g.policy(v, n) {
		return nil
	}
	object := findObject(v.Snapshot, v.Key.Cluster, n)
	if object == nil {
		return nil
	}
	return g.secrets.Get(input{name, object, n.Trust}).resource
}

// Touched reports whether a change may alter a Secret of the View's proxies. It returns true for
// d.All and for any change of a ConfigMap or of a Secret, also of a remote cluster. Gateways and
// ReferenceGrants matter only if they affect the access (affectsAccess).
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if k.Kind == api.Secret || k.Kind == api.RemoteSecret || k.Kind == api.ConfigMap || affectsAccess(v, k) {
			return true
		}
	}
	return false
}

// affectsAccess reports whether the object k, a Gateway that selects the proxies or a
// ReferenceGrant, may affect which secrets of Gateways they may receive.
func affectsAccess(v *view.View, k config.Key) bool {
	return v.Key.Gateways.Has(k) || k.Kind == api.ReferenceGrant && v.Key.Gateways != ""
}

// Affected returns the elements of names whose Secrets a change may alter: of changed objects and,
// if access may have changed, all names of gateway credentials. Invalid names and names of files
// are left out. A change of everything (d.All) affects all names.
func (g *Generator) Affected(_, v *view.View, d snapshot.Delta, names []string) []string {
	if d.All {
		return names
	}
	var affected []string
	opened := false
	for k := range d.Configs {
		opened = opened || affectsAccess(v, k)
	}
	for _, name := range names {
		n, err := parseName(v, name)
		if err != nil {
			continue
		}
		if opened && n.Store == mesh.GatewaySecret ||
			slices.ContainsFunc(
				keysIn(v.Snapshot, v.Key.Cluster, n),
				func(k config.Key) bool { _, changed := d.Configs[k]; return changed },
			) {
			affected = append(affected, name)
		}
	}
	return affected
}

// Computed returns how many Secrets have been generated since the start.
func (g *Generator) Computed() uint64 { return g.secrets.Computed() }

// parseName parses the SDS name of a secret (mesh.ParseSecretName), and returns an error if it is
// invalid. A name without a namespace gets the proxies' namespace.
func parseName(v *view.View, name string) (mesh.SecretName, error) {
	n, err := mesh.ParseSecretName(name)
	if n.Namespace == "" {
		n.Namespace = v.Key.Namespace
	}
	return n, err
}

// objectKeys returns the keys of the objects that a name may refer to in the config cluster; the
// first that exists is used.
func objectKeys(n mesh.SecretName) []config.Key {
	kind := api.Secret
	if n.Store == mesh.ConfigMapSecret {
		kind = api.ConfigMap
	}
	var list []config.Key
	for _, object := range n.Objects() {
		list = append(list, config.Key{Kind: kind, Namespace: n.Namespace, Name: object})
	}
	return list
}

// keysIn returns the keys of the objects that a name may refer to for proxies of a cluster
// (keysByCluster).
func keysIn(s *snapshot.Snapshot, cluster mesh.ClusterID, n mesh.SecretName) []config.Key {
	return slices.Concat(keysByCluster(s, cluster, n)...)
}

// keysByCluster returns the keys of the objects that a name may refer to for proxies of a cluster,
// separately for each cluster that is searched. For Kubernetes Secrets and another cluster than the
// config cluster, that cluster precedes the config cluster, as in Istio.
func keysByCluster(s *snapshot.Snapshot, cluster mesh.ClusterID, n mesh.SecretName) [][]config.Key {
	list := objectKeys(n)
	if n.Store != mesh.KubernetesSecret || !isRemote(s, cluster) {
		return [][]config.Key{list}
	}
	var own []config.Key
	for _, k := range list {
		own = append(own, mesh.RemoteSecretKey(cluster, k.Namespace, k.Name))
	}
	return [][]config.Key{own, list}
}

// isRemote reports whether the proxies' cluster is another one than the config cluster. It returns
// false if either is unknown.
func isRemote(s *snapshot.Snapshot, cluster mesh.ClusterID) bool {
	return cluster != "" && s.Settings.Cluster != "" && cluster != s.Settings.Cluster
}

// findObject returns the object that a name refers to for proxies of a cluster, or nil. In each
// cluster (keysByCluster) only the first object that exists is considered. An object without the
// data keys of the credential is skipped, as in Istio; one with invalid data is not, because the
// other cluster's may trust certificates that are revoked here.
func findObject(s *snapshot.Snapshot, cluster mesh.ClusterID, n mesh.SecretName) *config.Config {
	rows := pairRows()
	if n.Trust {
		rows = trustRows()
	}
	for _, keys := range keysByCluster(s, cluster, n) {
		i := slices.IndexFunc(keys, func(k config.Key) bool { return s.Config(k) != nil })
		if i < 0 {
			continue
		}
		c := s.Config(keys[i])
		if _, faults := chooseRow(dataOf(c), rows); len(faults) == 0 {
			return c
		}
	}
	return nil
}

// input is everything that a Secret depends on once access is permitted.
type input struct {
	name   string         // as requested, which is also the name of the Secret
	object *config.Config // nil for files of the proxy
	trust  bool
}

// secret is the result for an object.
type secret struct {
	resource *resource.Resource // nil if unusable
}

// newSecret encodes the Secret of a name: paths of files, or the trusted certificates (in.trust) or
// the pair of the object. The result has no resource if the object has a fault that is an Error.
func newSecret(in input) *secret {
	if m := fileSecret(in.name); m != nil {
		return encodeSecret(in.name, m)
	}
	m := &tlsv3.Secret{Name: in.name}
	if in.trust {
		t, faults := trustOf(in.object)
		if hasError(faults) {
			return new(secret)
		}
		m.Type = &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: inlineSource(t.anchors), Crl: inlineSource(t.revoked),
		}}
	} else {
		p, faults := pairOf(in.object)
		if hasError(faults) {
			return new(secret)
		}
		m.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inlineSource(p.chain),
			PrivateKey:       inlineSource(p.key),
			OcspStaple:       inlineSource(p.staple),
		}}
	}
	return encodeSecret(in.name, m, in.object.Key)
}

// encodeSecret returns m encoded as the secret name, which derives from the objects from. It panics
// if m cannot be encoded.
func encodeSecret(name string, m *tlsv3.Secret, from ...config.Key) *secret {
	r, err := resource.Encode(name, api.SecretType, m, from...)
	if err != nil {
		panic(fmt.Sprintf("secret %q: %v", name, err)) // Generated messages always encode.
	}
	made := &secret{r}
	r.Parts = made
	return made
}

// inlineSource returns a data source with b, or nil if b is empty.
func inlineSource(b []byte) *corev3.DataSource {
	if len(b) == 0 {
		return nil
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
