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
)

// object is a config object as kubectl would show it.
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

// istioKinds are the kinds of istio.io, sorted by name. Others are nobody's business here, secrets above all.
func istioKinds() []api.KindInfo {
	list := slices.DeleteFunc(slices.Clone(api.Kinds()), func(k api.KindInfo) bool { return !k.Istio() })
	slices.SortFunc(list, func(a, b api.KindInfo) int { return cmp.Compare(a.Kind, b.Kind) })
	return list
}

// version is the version under which a kind is shown: v1 where there is one, whatever is stored.
func version(k api.KindInfo) string {
	if slices.Contains(k.Versions, "v1") {
		return "v1"
	}
	return k.Versions[0]
}

func (p *Pages) configz(q question) (answer, error) {
	s := p.Snapshot()
	list := []object{}
	for _, kind := range istioKinds() {
		if want := q.Get("kind"); want != "" && want != string(kind.Kind) {
			continue
		}
		for _, c := range s.Configs(kind.Kind) {
			list = append(list, newObject(kind, c))
		}
	}
	return written(q, list)
}

func newObject(kind api.KindInfo, c *config.Config) object {
	return object{
		Kind: string(kind.Kind), APIVersion: kind.Group + "/" + version(kind),
		Metadata: metadata{
			Name: c.Name, Namespace: c.Namespace, ResourceVersion: c.ResourceVersion, Generation: c.Generation,
			CreationTimestamp: c.Created, Labels: c.Labels, Annotations: c.Annotations,
		},
		Spec: specJSON(c),
	}
}

func specJSON(c *config.Config) json.RawMessage { return protoJSON(config.Spec[proto.Message](c)) }

func protoJSON(m proto.Message) json.RawMessage {
	b, err := protojson.Marshal(m)
	if err != nil {
		return asJSON("cannot be shown: " + err.Error())
	}
	return b
}

// kind is a kind of object in istiod's form of resourcesz.
type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func (p *Pages) resourcesz(q question) (answer, error) {
	list := []kind{}
	for _, k := range istioKinds() {
		list = append(list, kind{k.Group, version(k), string(k.Kind)})
	}
	return written(q, list)
}

func (p *Pages) mesh(q question) (answer, error) {
	return written(q, protoJSON(p.Snapshot().Settings.Mesh))
}

func (p *Pages) inject(q question) (answer, error) {
	templates := map[string]string{}
	if p.Templates != nil {
		templates = p.Templates()
	}
	return written(q, templates)
}

// Cluster is a cluster in istiod's form of clusterz, and what more is known of a remote one.
type Cluster struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"`
	SyncStatus string `json:"syncStatus"`
	// Waiting says what of it cannot be read at present, or what is wrong with its kubeconfig.
	Waiting string `json:"waiting,omitempty"`
	// Services, Workloads and Slices (lists of endpoints) are how many are known.
	Services  int `json:"services,omitempty"`
	Workloads int `json:"workloads,omitempty"`
	Slices    int `json:"slices,omitempty"`
}

func (p *Pages) clusterz(q question) (answer, error) {
	local := Cluster{ID: string(p.Cluster), SyncStatus: "synced"}
	if p.Waiting != nil && len(p.Waiting()) > 0 {
		local.SyncStatus = "syncing"
	}
	list := []Cluster{local}
	if p.Clusters != nil {
		list = append(list, p.Clusters()...)
	}
	return written(q, list)
}

// ClusterSetService is a service of the cluster set as one cluster has it, in istiod's form of mcsz.
type ClusterSetService struct {
	Cluster            string
	Name               string
	Namespace          string
	Exported, Imported bool
	ClusterSetVIP      string
	// Discoverability says of each hostname of an exported service from where its endpoints are known.
	Discoverability map[string]string
}

// Discoverability gives istiod's words for whether endpoints are known in other clusters, by hostname.
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

func (p *Pages) mcsz(q question) (answer, error) {
	list := []ClusterSetService{}
	if p.ClusterSet != nil {
		list = append(list, p.ClusterSet()...)
	}
	return written(q, list)
}

// collection is what a snapshot has of one kind, in the shape of krt's debugger: outputs are keys with content hashes.
type collection struct {
	Name  string          `json:"name"`
	State collectionState `json:"state"`
}

type collectionState struct {
	Outputs map[string]any `json:"outputs"`
}

func (p *Pages) krtz(q question) (answer, error) {
	s := p.Snapshot()
	services, endpoints := collection{Name: "Services"}, collection{Name: "Endpoints"}
	services.State.Outputs, endpoints.State.Outputs = map[string]any{}, map[string]any{}
	for _, svc := range s.Services() {
		key := svc.Namespace + "/" + string(svc.Host)
		services.State.Outputs[key] = hash(svc.Hash)
		e := s.Endpoints(svc.ServiceKey)
		endpoints.State.Outputs[key] = map[string]any{"hash": hash(e.Hash), "count": len(e.Endpoints)}
	}
	list := []collection{services, endpoints}
	for _, k := range istioKinds() {
		x := collection{Name: string(k.Kind), State: collectionState{map[string]any{}}}
		for _, c := range s.Configs(k.Kind) {
			x.State.Outputs[c.Namespace+"/"+c.Name] = hash(c.Hash)
		}
		list = append(list, x)
	}
	return written(q, list)
}

// hash writes a content hash as text: many readers of JSON have numbers of 53 bits.
func hash(h uint64) string { return strconv.FormatUint(h, 16) }
