package debug

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// object is a config object in the form of kubectl's output.
type object struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   metadata `json:"metadata"`
	Spec       any      `json:"spec,omitempty"`
}

type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// configKinds returns the custom kinds whose objects are in snapshots, of istio.io API groups and the
// Gateway API, sorted by name. Kubernetes' own kinds are excluded because they include Secrets.
func configKinds() []api.KindInfo {
	list := slices.DeleteFunc(slices.Clone(api.Kinds()), func(k api.KindInfo) bool {
		return !k.Custom || !snapshot.Keeps(k.Kind)
	})
	slices.SortFunc(list, func(a, b api.KindInfo) int { return cmp.Compare(a.Kind, b.Kind) })
	return list
}

// shownVersion returns the API version that a kind is shown with: v1 if the kind has it, otherwise
// its first version. The stored version is ignored.
func shownVersion(k api.KindInfo) string {
	if slices.Contains(k.Versions, "v1") {
		return "v1"
	}
	return k.Versions[0]
}

// configz serves all config objects of configKinds. ?kind= limits the list to the kinds of one name;
// for an unknown one it is empty.
func (p *Pages) configz(q question) (answer, error) {
	s := p.Snapshot()
	list := []object{}
	for _, kind := range configKinds() {
		if want := q.Get("kind"); want != "" && want != kind.Kind.Name() {
			continue
		}
		for _, c := range s.Configs(kind.Kind) {
			list = append(list, newObject(kind, c))
		}
	}
	return jsonAnswer(q, list)
}

// newObject converts a config object to the form of kubectl's output without its status, in the API
// version of shownVersion. Nothing is redacted, and a Kubernetes object without a spec is the spec
// as a whole. A protobuf message that cannot be encoded is replaced by a text with the error.
// Labels and annotations are shared with c.
func newObject(kind api.KindInfo, c *config.Config) object {
	o := object{
		Kind: kind.Kind.Name(), APIVersion: kind.Group + "/" + shownVersion(kind),
		Metadata: metadata{
			Name: c.Name, Namespace: c.Namespace, ResourceVersion: c.ResourceVersion, Generation: c.Generation,
			CreationTimestamp: c.Created, Labels: c.Labels, Annotations: c.Annotations,
		},
	}
	if m, ok := c.Spec.(proto.Message); ok {
		o.Spec = protoJSON(m)
	} else {
		o.Spec = specOfObject(c.Spec)
	}
	return o
}

// specJSON returns the spec of a config object as JSON, or a JSON string with the error if it
// cannot be marshalled.
func specJSON(c *config.Config) json.RawMessage { return protoJSON(config.Spec[proto.Message](c)) }

// protoJSON returns a message as JSON, or a JSON string with the error if it cannot be marshalled.
func protoJSON(m proto.Message) json.RawMessage {
	b, err := protojson.Marshal(m)
	if err != nil {
		return asJSON("cannot be shown: " + err.Error())
	}
	return b
}

// kind is a kind of config object in istiod's form of resourcesz.
type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// resourcesz serves configKinds.
func (p *Pages) resourcesz(q question) (answer, error) {
	list := []kind{}
	for _, k := range configKinds() {
		list = append(list, kind{k.Group, shownVersion(k), k.Kind.Name()})
	}
	return jsonAnswer(q, list)
}

// meshPage serves the MeshConfig of the current snapshot.
func (p *Pages) meshPage(q question) (answer, error) {
	return jsonAnswer(q, protoJSON(p.Snapshot().Settings.Mesh))
}

// injectPage serves the injection templates by name, an empty object without an injector.
func (p *Pages) injectPage(q question) (answer, error) {
	templates := map[string]string{}
	if p.Templates != nil {
		templates = p.Templates()
	}
	return jsonAnswer(q, templates)
}

// Cluster is a cluster in istiod's form of clusterz, with additional fields for remote clusters.
type Cluster struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"`
	SyncStatus string `json:"syncStatus"`
	// Waiting describes what cannot currently be read from the cluster, or the error in its
	// kubeconfig.
	Waiting string `json:"waiting,omitempty"`
	// Services, Workloads and Slices are the numbers of known objects. Slices are lists of
	// endpoints.
	Services  int `json:"services,omitempty"`
	Workloads int `json:"workloads,omitempty"`
	Slices    int `json:"slices,omitempty"`
}

// clusterz serves the control plane's own cluster, followed by the remote clusters. The own cluster
// is "syncing" until all its sources are in sync.
func (p *Pages) clusterz(q question) (answer, error) { return jsonAnswer(q, p.AllClusters()) }

// AllClusters returns the control plane's own cluster, followed by the remote clusters. The own
// cluster is "syncing" as long as something is waited for.
func (p *Pages) AllClusters() []Cluster {
	local := Cluster{ID: string(p.Cluster), SyncStatus: "synced"}
	if p.Waiting != nil && len(p.Waiting()) > 0 {
		local.SyncStatus = "syncing"
	}
	list := []Cluster{local}
	if p.Clusters != nil {
		list = append(list, p.Clusters()...)
	}
	return list
}

// ClusterSetService is the state of a service of the cluster set in one cluster, in istiod's form
// of mcsz.
type ClusterSetService struct {
	Cluster            string
	Name               string
	Namespace          string
	Exported, Imported bool
	ClusterSetVIP      string
	// Discoverability maps each hostname of an exported service to the clusters that can discover
	// its endpoints, in istiod's terms.
	Discoverability map[string]string
}

// Discoverability returns istiod's terms for endpoint discoverability by hostname. The term is
// AlwaysDiscoverable if everywhere is true for the hostname, otherwise DiscoverableFromSameCluster.
// It returns nil if everywhere is nil.
func Discoverability(everywhere map[mesh.Hostname]bool) map[string]string {
	if everywhere == nil {
		return nil
	}
	words := map[string]string{}
	for host, is := range everywhere {
		if words[string(host)] = "DiscoverableFromSameCluster"; is {
			words[string(host)] = "AlwaysDiscoverable"
		}
	}
	return words
}

// mcsz serves the services of the cluster set, an empty list if none are read.
func (p *Pages) mcsz(q question) (answer, error) {
	list := []ClusterSetService{}
	if p.ClusterSet != nil {
		list = append(list, p.ClusterSet()...)
	}
	return jsonAnswer(q, list)
}

// collection lists the objects of one kind in a snapshot, in the shape of krt's debugger. Its
// outputs map keys to content hashes.
type collection struct {
	Name  string          `json:"name"`
	State collectionState `json:"state"`
}

type collectionState struct {
	Outputs map[string]any `json:"outputs"`
}

// krtz serves the services, endpoints and config objects (configKinds) of the current snapshot as
// collections. Each maps NAMESPACE/NAME, or NAMESPACE/HOST, to a hash of the content. Endpoints
// also have their number per service.
func (p *Pages) krtz(q question) (answer, error) {
	s := p.Snapshot()
	services, endpoints := collection{Name: "Services"}, collection{Name: "Endpoints"}
	services.State.Outputs, endpoints.State.Outputs = map[string]any{}, map[string]any{}
	for _, svc := range s.Services() {
		key := svc.Namespace + "/" + string(svc.Host)
		services.State.Outputs[key] = formatHash(svc.Hash)
		e := s.Endpoints(svc.ServiceKey)
		endpoints.State.Outputs[key] = map[string]any{
			"hash": formatHash(mesh.HashEndpoints(e.Endpoints)), "count": len(e.Endpoints),
		}
	}
	list := []collection{services, endpoints}
	for _, k := range configKinds() {
		x := collection{Name: string(k.Kind), State: collectionState{map[string]any{}}}
		for _, c := range s.Configs(k.Kind) {
			x.State.Outputs[c.Namespace+"/"+c.Name] = formatHash(c.Hash)
		}
		list = append(list, x)
	}
	return jsonAnswer(q, list)
}

// formatHash returns a content hash as hexadecimal text. A JSON number would lose precision,
// because many JSON readers have numbers of 53 bits.
func formatHash(h uint64) string { return strconv.FormatUint(h, 16) }
