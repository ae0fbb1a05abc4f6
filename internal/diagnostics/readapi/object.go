package readapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// ObjectName identifies an object in a request.
type ObjectName struct {
	Kind      string `path:"kind" doc:"Kind as manifests spell it. Gateway is Istio's; the other one is Gateway.gateway.networking.k8s.io."`
	Name      string `path:"name"`
	Namespace string `query:"namespace" doc:"Namespace of the object; empty for kinds without namespaces."`
}

// objectKey is the context key of the config.Key that a request names.
type objectKey struct{}

// readKey adds the config.Key that a request names to its context, as readAnyKey does. It also
// answers 422 for kinds whose objects snapshots do not keep.
func (a *API) readKey(c huma.Context, next func(huma.Context)) {
	if k := api.Kind(c.Param("kind")); !snapshot.Keeps(k) {
		reason := fmt.Sprintf("objects of kind %s are read, but only what is made from them is kept", k)
		if _, known := api.Info(k); !known {
			reason = fmt.Sprintf("kind %q is not read by this control plane", k)
		}
		_ = huma.WriteErr(a.api, c, http.StatusUnprocessableEntity, reason) // fails only if the client has gone
		return
	}
	a.readAnyKey(c, next)
}

// readAnyKey adds the config.Key that a request names to its context. It answers 422 for a kind
// that the control plane does not read and for a missing or superfluous namespace. It answers 403
// for a namespace that the caller may not read, and 404 for a proxy that is not connected. The
// latter is not checked if other replicas are asked too.
func (a *API) readAnyKey(c huma.Context, next func(huma.Context)) {
	k := config.Key{Kind: api.Kind(c.Param("kind")), Namespace: c.Query("namespace"), Name: c.Param("name")}
	info, known := api.Info(k.Kind)
	caller := callerOf(c.Context())
	status, reason := http.StatusUnprocessableEntity, ""
	switch proxy := c.Query("proxy"); {
	case !known:
		reason = fmt.Sprintf("kind %q is not read by this control plane", k.Kind)
	case info.ClusterScoped && k.Namespace != "":
		reason = fmt.Sprintf("objects of kind %s have no namespace", k.Kind)
	case !info.ClusterScoped && k.Namespace == "":
		reason = "the namespace of the object is missing"
	case !caller.CanRead(k.Namespace):
		status = http.StatusForbidden
		reason = fmt.Sprintf("namespace %q may not read objects of namespace %q", caller.Namespace, k.Namespace)
	case proxy != "" && !a.isConnected(proxy, caller) && (c.Query("local") == "true" || !a.hasPeers()):
		status, reason = http.StatusNotFound, fmt.Sprintf("no proxy %q is connected to this control plane", proxy)
	}
	if reason != "" {
		_ = huma.WriteErr(a.api, c, status, reason) // fails only if the client has gone
		return
	}
	next(huma.WithValue(c, objectKey{}, k))
}

// hasPeers reports whether the snapshot or the options name other replicas.
func (a *API) hasPeers() bool { return len(a.Peers.In(a.Snapshot())) > 0 }

// isConnected reports whether a proxy with the name, with or without its namespace, is connected
// and the caller may see it.
func (a *API) isConnected(name string, caller debug.Caller) bool {
	return slices.ContainsFunc(a.StreamStates(), func(s push.StreamState) bool {
		return caller.CanRead(s.Proxy.Namespace) && isNamed(s.Proxy, name)
	})
}

// isNamed reports whether name is the proxy's name, or NAME.NAMESPACE of it.
func isNamed(p *mesh.Proxy, name string) bool { return name == p.Name || name == debug.DisplayName(p) }

// keyOf returns the key that readAnyKey has added to the context, or the zero Key.
func keyOf(ctx context.Context) config.Key {
	k, _ := ctx.Value(objectKey{}).(config.Key)
	return k
}

// Object is the version of an object that the control plane uses.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Present is false if the control plane has no valid version of the object.
	Present bool `json:"present" doc:"False if the control plane has no valid version of the object."`
	// Generation is metadata.generation; 0 for objects of files.
	Generation int64 `json:"generation,omitempty" doc:"metadata.generation of objects of an API server."`
	// Hash identifies the content.
	Hash string `json:"hash,omitempty" doc:"Identifies the content: spec, creation time, and the labels and annotations that have an effect."`
	// Origin is the file, document and line.
	Origin string `json:"origin,omitempty" doc:"File, document and line of objects of files."`
	// Problems were found when the object was read. With an error, the version before
	// is used.
	Problems []debug.Problem `json:"problems,omitempty" doc:"Found when the object was read. With an error, the version before it stays in use."`
	// Replica is the replica that answers.
	Replica string `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
}

// objectOf returns the state of the object k in the snapshot. Present is false if the snapshot does
// not have it; its Problems are returned in any case.
func (a *API) objectOf(s *snapshot.Snapshot, k config.Key) Object {
	o := Object{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name, Replica: a.Replica}
	if c := s.Config(k); c != nil {
		o.Present, o.Generation, o.Hash, o.Origin = true, c.Generation, formatHash(c.Hash), c.Origin
	}
	for _, p := range s.Problems() {
		if p.Key == k {
			o.Problems = append(o.Problems, debug.NewProblem(p))
		}
	}
	return o
}

// formatHash returns a hash in hexadecimal digits.
func formatHash(h uint64) string { return strconv.FormatUint(h, 16) }

// ObjectRequest names an object.
type ObjectRequest struct {
	ObjectName
	Aggregation
}

// ObjectAnswer is the version of an object that each replica uses.
type ObjectAnswer struct {
	Object
	// Manifest is the object as this replica uses it.
	Manifest string `json:"manifest,omitempty" doc:"The object in YAML, as this replica uses it."`
	// Peers are the answers of the other replicas.
	Peers      []Object     `json:"peers,omitempty" doc:"The answers of the other replicas."`
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// object serves the state of one object at this replica, with its manifest, and at the selected
// other replicas, without it. A manifest that cannot be written is left out. Replicas that do not
// answer are in Unanswered.
func (a *API) object(ctx context.Context, r *ObjectRequest) (*struct{ Body ObjectAnswer }, error) {
	k := keyOf(ctx)
	x := ObjectAnswer{Object: a.objectOf(a.Snapshot(), k)}
	if c := a.Snapshot().Config(k); c != nil {
		if text, err := debug.Manifest(c); err == nil { // the other fields are useful without it
			x.Manifest = string(text)
		}
	}
	path := "/objects/" + url.PathEscape(string(k.Kind)) + "/" + url.PathEscape(k.Name)
	x.Peers, x.Unanswered = collectFromPeers[Object](ctx, a, r.Aggregation, path,
		url.Values{"namespace": {k.Namespace}})
	return &struct{ Body ObjectAnswer }{x}, nil
}
