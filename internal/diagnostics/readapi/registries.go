package readapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// RegistryState is whether a registry can be read.
type RegistryState string

// The states of a registry.
const (
	// RegistryWaiting: it has not reported everything since the control plane started.
	RegistryWaiting RegistryState = "waiting"
	RegistrySynced  RegistryState = "synced"
	// RegistryStale: it cannot be read now, and its last known state is in use.
	RegistryStale RegistryState = "stale"
)

// Registry is the state of a source of services and objects. Numbers are known for Consul and for
// platforms that run as an adapter.Platform.
type Registry struct {
	Name       string        `json:"name" doc:"The name of the source, with its address or cluster: ZooKeeper/zk.example:2181."`
	State      RegistryState `json:"state" enum:"waiting,synced,stale" doc:"waiting: has not reported everything since the start; stale: cannot be read now, its last known state is in use."`
	LastSync   *time.Time    `json:"lastSync,omitempty" doc:"When it last reported everything."`
	LastChange *time.Time    `json:"lastChange,omitempty" doc:"When a service last changed."`
	LagSeconds int64         `json:"lagSeconds,omitempty" doc:"How long it has not been readable, in seconds."`
	Error      string        `json:"error,omitempty" doc:"Why it cannot be read, or what is missing."`
	Failures   int           `json:"failures,omitempty" doc:"How often it could not be read since the start."`
	Services   *int          `json:"services,omitempty" doc:"Services in use."`
	Instances  *int          `json:"instances,omitempty" doc:"Instances in use."`
	Held       int           `json:"held,omitempty" doc:"Instances in use that it does not list."`
	Problems   int           `json:"problems,omitempty" doc:"Services with a problem, and 1 for the registry itself."`
}

// setUnreadable sets the error of a registry to reason. If the registry is synced and since, the
// time from which it could not be read, is not zero, it also sets the state stale and the lag.
func (r *Registry) setUnreadable(since time.Time, reason string, now time.Time) {
	r.Error = reason
	if r.State == RegistrySynced && !since.IsZero() {
		r.State, r.LagSeconds = RegistryStale, int64(now.Sub(since).Seconds())
	}
}

// Registries are the registries that one replica reads.
type Registries struct {
	Replica    string     `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	Registries []Registry `json:"registries" doc:"By precedence."`
}

// RegistriesAnswer is the answer of a replica, with the answers of the others.
type RegistriesAnswer struct {
	Registries
	Peers      []Registries `json:"peers,omitempty" doc:"The registries of the other replicas."`
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose answer is missing."`
}

// registerRegistries adds the operation that lists the registries.
func (a *API) registerRegistries() {
	huma.Register(a.api, huma.Operation{
		OperationID: "list-registries", Method: http.MethodGet, Path: Prefix + "/registries",
		Summary: "The registries, clusters and other sources that each replica reads, with their state",
		Errors:  []int{http.StatusUnauthorized, http.StatusForbidden},
	}, a.registries)
}

// registries serves the state of the registries that the selected replicas read. This replica has
// none if Options.Registries is nil. It answers 403 to callers that may not read all namespaces,
// because errors contain addresses. Replicas that do not answer are in Unanswered.
func (a *API) registries(ctx context.Context, r *Aggregation) (*struct{ Body RegistriesAnswer }, error) {
	if err := requireAllNamespaces(callerOf(ctx), "registries"); err != nil {
		return nil, err
	}
	answer := &struct{ Body RegistriesAnswer }{RegistriesAnswer{Registries: Registries{Replica: a.Replica,
		Registries: []Registry{}}}}
	if a.Registries != nil {
		answer.Body.Registries.Registries = a.Registries()
	}
	answer.Body.Peers, answer.Body.Unanswered = collectFromPeers[Registries](ctx, a, *r, "/registries", url.Values{})
	return answer, nil
}
