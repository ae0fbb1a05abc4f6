package debug

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/view"
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
	CreationTimestamp *time.Time        `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

func (p *pages) configz(w http.ResponseWriter, r *http.Request) {
	s := p.Snapshot()
	list := []object{}
	for _, kind := range api.Kinds() {
		if !kind.Istio() {
			continue // secrets above all are nobody's business here
		}
		if want := r.URL.Query().Get("kind"); want != "" && want != string(kind.Kind) {
			continue
		}
		for _, c := range s.Configs(kind.Kind) {
			list = append(list, shown(kind, c))
		}
	}
	writeJSON(w, list)
}

func shown(kind api.KindInfo, c *config.Config) object {
	o := object{
		Kind: string(kind.Kind), APIVersion: kind.Group + "/" + kind.Versions[0],
		Metadata: metadata{
			Name: c.Name, Namespace: c.Namespace, ResourceVersion: c.ResourceVersion, Generation: c.Generation,
			Labels: c.Labels, Annotations: c.Annotations,
		},
		Spec: protoJSON(config.Spec[proto.Message](c)),
	}
	if !c.Created.IsZero() {
		o.Metadata.CreationTimestamp = &c.Created
	}
	return o
}

func protoJSON(m proto.Message) json.RawMessage {
	b, err := protojson.Marshal(m)
	if err != nil {
		b, _ = json.Marshal("cannot be shown: " + err.Error())
	}
	return b
}

// Problem is a config.Problem as JSON.
type Problem struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Origin    string `json:"origin,omitempty"`
	Field     string `json:"field,omitempty"`
	Reason    string `json:"reason"`
	Severity  string `json:"severity"`
}

// String gives one line with everything a person needs to find and mend it.
func (p Problem) String() string {
	line := config.Problem{
		Key:   config.Key{Kind: api.Kind(p.Kind), Namespace: p.Namespace, Name: p.Name},
		Field: p.Field, Reason: p.Reason, Origin: p.Origin,
	}
	return p.Severity + ": " + line.String()
}

func (p *pages) problemz(w http.ResponseWriter, _ *http.Request) {
	all := slices.Concat(p.Snapshot().Problems(), p.Analysis(), p.conflicts())
	slices.SortFunc(all, config.Problem.Compare)
	list := []Problem{}
	for _, x := range slices.Compact(all) {
		list = append(list, Problem{
			Kind: string(x.Key.Kind), Namespace: x.Key.Namespace, Name: x.Key.Name, Origin: x.Origin,
			Field: x.Field, Reason: x.Reason, Severity: string(x.Severity),
		})
	}
	writeJSON(w, list)
}

// conflicts gives what comes up in the Views of the connected proxies, each View once.
func (p *pages) conflicts() []config.Problem {
	s := p.Snapshot()
	seen := map[view.Key]bool{}
	var list []config.Problem
	for _, c := range p.Proxies.Connections() {
		k := view.KeyFor(s, c.Proxy)
		k.Inbound = "" // it is about the outbound side
		if !seen[k] {
			seen[k] = true
			list = append(list, p.Conflicts(view.Build(s, k))...)
		}
	}
	return list
}

func (p *pages) mesh(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, protoJSON(p.Snapshot().Settings.Mesh))
}

func (p *pages) networkz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, protoJSON(p.Snapshot().Settings.Networks))
}
