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

// Generator makes the Secrets that Views' proxies ask for, each distinct one once. It is for use by many goroutines.
type Generator struct {
	may     Policy
	secrets *memo.Table[input, *secret]
}

// NewGenerator makes a Generator that remembers nothing yet, and gives out what the policy allows.
func NewGenerator(may Policy) *Generator {
	return &Generator{may: may, secrets: memo.New(newSecret)}
}

// Scope gives the part of a Key that policies go by: where the proxies are, whether that is known, and which Gateways they serve; and
// in which cluster their Secrets are looked for.
// The Sidecar is only there so that the View has its services in common with others.
func Scope(k view.Key) view.Key {
	return view.Key{
		Keys: k.Keys, Namespace: k.Namespace, Cluster: k.Cluster, Sidecar: k.Sidecar, Gateway: view.GatewayKey{Names: k.Gateway.Names},
	}
}

// Named gives the Secret of that name, nil if there is none for this View's proxies. Names that are the agent's ("default",
// "ROOTCA") are none.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if fileSecret(name) != nil {
		return g.secrets.Get(input{name: name}).resource
	}
	n, err := parse(v, name)
	if err != nil || !g.may(v, n) {
		return nil
	}
	object := find(v.Snapshot, v.Key.Cluster, n)
	if object == nil {
		return nil
	}
	return g.secrets.Get(input{name, object, n.Trust}).resource
}

// Touched says whether a change may alter a Secret of the View's proxies.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if k.Kind == api.Secret || k.Kind == api.RemoteSecret || k.Kind == api.ConfigMap || opens(v, k) {
			return true
		}
	}
	return false
}

// opens says whether an object may have a say in which secrets of Gateways the View's proxies get.
func opens(v *view.View, k config.Key) bool {
	return v.Key.Gateway.Names.Has(k) || k.Kind == api.ReferenceGrant && v.Key.Gateway.Names != ""
}

// Affected gives those of the names whose Secrets a change may alter.
func (g *Generator) Affected(_, v *view.View, d snapshot.Delta, names []string) []string {
	if d.All {
		return names
	}
	var affected []string
	opened := false
	for k := range d.Configs {
		opened = opened || opens(v, k)
	}
	for _, name := range names {
		n, err := parse(v, name)
		if err != nil {
			continue
		}
		if opened && n.Store == mesh.GatewaySecret || slices.ContainsFunc(keysIn(v.Snapshot, v.Key.Cluster, n), func(k config.Key) bool { _, changed := d.Configs[k]; return changed }) {
			affected = append(affected, name)
		}
	}
	return affected
}

// Computed is how many Secrets were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.secrets.Computed() }

// parse reads a name as the View's proxies mean it: with a namespace.
func parse(v *view.View, name string) (mesh.SecretName, error) {
	n, err := mesh.ParseSecretName(name)
	if n.Namespace == "" {
		n.Namespace = v.Key.Namespace
	}
	return n, err
}

// keys gives the objects that a name may stand for, the first one that exists counts.
func keys(n mesh.SecretName) []config.Key {
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

// keysIn gives the objects that a name may stand for which a proxy of a cluster asks for: those of its own cluster count before those
// of the config cluster, as in Istio.
func keysIn(s *snapshot.Snapshot, cluster mesh.ClusterID, n mesh.SecretName) []config.Key {
	list := keys(n)
	if n.Store != mesh.KubernetesSecret || !remote(s, cluster) {
		return list
	}
	var own []config.Key
	for _, k := range list {
		own = append(own, mesh.RemoteSecretKey(cluster, k.Namespace, k.Name))
	}
	return append(own, list...)
}

// remote says that a proxy's cluster is another one than that of the configuration.
func remote(s *snapshot.Snapshot, cluster mesh.ClusterID) bool {
	return cluster != "" && s.Settings.Cluster != "" && cluster != s.Settings.Cluster
}

func find(s *snapshot.Snapshot, cluster mesh.ClusterID, n mesh.SecretName) *config.Config {
	for _, k := range keysIn(s, cluster, n) {
		if c := s.Config(k); c != nil {
			return c
		}
	}
	return nil
}

// input is all that a Secret depends on once it may be given out.
type input struct {
	name   string         // as it was asked for, which is the Secret's name
	object *config.Config // nil for files of the proxy
	trust  bool
}

// secret is what became of an object.
type secret struct {
	resource *resource.Resource // nil: nothing that can be used
}

func newSecret(in input) *secret {
	if m := fileSecret(in.name); m != nil {
		return encoded(in.name, m)
	}
	m := &tlsv3.Secret{Name: in.name}
	if in.trust {
		t, faults := trustOf(in.object)
		if refused(faults) {
			return new(secret)
		}
		m.Type = &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: inline(t.anchors), Crl: inline(t.revoked),
		}}
	} else {
		p, faults := pairOf(in.object)
		if refused(faults) {
			return new(secret)
		}
		m.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(p.chain), PrivateKey: inline(p.key), OcspStaple: inline(p.staple),
		}}
	}
	return encoded(in.name, m, in.object.Key)
}

func encoded(name string, m *tlsv3.Secret, from ...config.Key) *secret {
	r, err := resource.Encode(name, api.SecretType, m, from...)
	if err != nil {
		panic(fmt.Sprintf("secret %q: %v", name, err)) // messages of our own making always encode
	}
	made := &secret{r}
	r.Parts = made
	return made
}

func inline(b []byte) *corev3.DataSource {
	if len(b) == 0 {
		return nil
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
