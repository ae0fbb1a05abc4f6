package readapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// RolloutState is how far the version of an object is that a client waits for.
type RolloutState string

// The states of a rollout.
const (
	// Waiting means that the control plane does not have the version yet.
	Waiting RolloutState = "waiting"
	// Invalid means that the control plane refuses the newest version of the object, and uses the
	// one before.
	Invalid RolloutState = "invalid"
	// Pushing means that the version is being generated, or held back until other proxies have
	// their part.
	Pushing RolloutState = "pushing"
	// Distributing means that some proxies have not acknowledged it yet.
	Distributing RolloutState = "distributing"
	// Refused means that proxies reject resources that are generated from it.
	Refused RolloutState = "refused"
	// Reached means that all proxies that need it have acknowledged it.
	Reached RolloutState = "reached"
)

// Rollout is an event: how far a version of an object has come at one replica.
type Rollout struct {
	Object Object       `json:"object"`
	State  RolloutState `json:"state" enum:"waiting,invalid,pushing,distributing,refused,reached"`
	// Reason explains Waiting and Invalid, and Distributing if a replica is silent.
	Reason string `json:"reason,omitempty" doc:"Why the control plane does not have the version."`
	// Proxies is the number of proxies of this replica that need the version. UpToDate is how many
	// of them have it.
	Proxies  int `json:"proxies" doc:"Proxies of this replica that need the version."`
	UpToDate int `json:"upToDate" doc:"Those of them that have acknowledged it."`
	// Behind are proxies that need the version and do not have it, at most maxBehind, in the
	// caller's namespace.
	Behind []ProxyBehind `json:"behind,omitempty" doc:"Some of the others, of the caller's namespace."`
	// Refusals are the rejected resources.
	Refusals []Refusal `json:"refusals,omitempty" doc:"Resources generated from the object that proxies reject."`
	// Replicas are the parts of the sum of several replicas; nil if one replica answers for itself.
	Replicas []ReplicaProgress `json:"replicas,omitempty" doc:"The replicas that the numbers are summed up of; missing if one replica answers for itself."`
	// Unanswered are the replicas whose part is missing.
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose part is missing. One that is silent keeps the rollout from being reached, one that refuses the caller's credentials does not."`
}

// ReplicaProgress is how far a version of an object has come at one replica.
type ReplicaProgress struct {
	Replica  string       `json:"replica"`
	State    RolloutState `json:"state"`
	Proxies  int          `json:"proxies"`
	UpToDate int          `json:"upToDate"`
}

// ProxyBehind is a proxy that does not have the version yet.
type ProxyBehind struct {
	Proxy  string `json:"proxy" doc:"NAME.NAMESPACE"`
	Reason string `json:"reason" doc:"What it has not been sent or not acknowledged."`
	// Since is zero if it is not known.
	Since time.Time `json:"since,omitzero" doc:"Since when the first of it is missing, if that is known."`
}

// Refusal is a resource that proxies reject.
type Refusal struct {
	Type     string `json:"type" doc:"CDS, LDS, RDS, EDS, ECDS …"`
	Resource string `json:"resource,omitempty"`
	Message  string `json:"message" doc:"The error of a proxy."`
	// Quarantined means that proxies are served something else instead.
	Quarantined bool     `json:"quarantined" doc:"True if the resource is withheld from proxies, and the version before it is served."`
	Proxies     []string `json:"proxies,omitempty" doc:"Some of the proxies that reject it, of the caller's namespace."`
}

const (
	// maxBehind limits the proxies in a Rollout and in a Refusal.
	maxBehind = 20
	// minInterval and maxInterval bound the time between two looks at the proxies. In between, it
	// is lookShare times the duration of a look, so that a client costs at most 2 % of a core.
	minInterval = 200 * time.Millisecond
	maxInterval = time.Second
	lookShare   = 50
	// confirmAfter is how long an error must last before it is reported: problems of the version
	// before the awaited one, and rejections of resources that are only suspected until they are
	// sent again one by one.
	confirmAfter = 2 * time.Second
	// heartbeat is the longest time between two events.
	heartbeat = 5 * time.Second
)

// RolloutRequest selects the version of an object.
type RolloutRequest struct {
	ObjectName
	Aggregation
	Generation int64  `query:"generation" doc:"Wait for this metadata.generation or a later one."`
	Hash       string `query:"hash" doc:"Wait for the content with this hash."`
	Deleted    bool   `query:"deleted" doc:"Wait until the object does not exist."`
	Proxy      string `query:"proxy" doc:"Only this proxy: NAME or NAME.NAMESPACE."`
}

// WatchRolloutRequest selects the version of an object to follow.
type WatchRolloutRequest struct {
	RolloutRequest
	LastEvent
}

// rolloutWatch follows one object for one client.
type rolloutWatch struct {
	*API
	request RolloutRequest
	key     config.Key
	caller  debug.Caller

	tracker *push.ObjectTracker
	// version is the hash of the version that tracker follows; "" for a deletion.
	version string
	// since is when the state became Invalid or Refused; zero if it is neither.
	since time.Time
}

// watchRollout sends an event when the progress has changed, and after each heartbeat without a
// change. It returns when all proxies have the version, the client disconnects or the control plane
// stops.
func (a *API) watchRollout(ctx context.Context, r *WatchRolloutRequest, _ sse.Sender) {
	w := &rolloutWatch{API: a, request: r.RolloutRequest, key: keyOf(ctx), caller: callerOf(ctx)}
	peers := newPeerWatches(ctx, w)
	defer peers.close()
	events := newEventStream(ctx, "rollout", r.LastEvent)
	for {
		start := a.Clock.Now()
		state := peers.add(w.rollout(start))
		next, err := newDocument(state)
		if err != nil || events.update(next, start) != nil || state.State == Reached {
			return
		}
		if !a.pause(ctx, min(max(minInterval, lookShare*a.Clock.Now().Sub(start)), maxInterval)) {
			return
		}
	}
}

// rollout returns the progress at this replica. It tracks a new version of the object from the
// start, and stops tracking while the object is missing. A missing object with an Error becomes
// Invalid, if that lasts (confirm).
func (w *rolloutWatch) rollout(now time.Time) Rollout {
	s := w.Snapshot()
	x := Rollout{Object: w.objectOf(s, w.key)}
	if reason := w.missing(x.Object); reason != "" {
		w.tracker = nil
		x.State, x.Reason = Waiting, reason
		if slices.ContainsFunc(x.Object.Problems,
			func(p debug.Problem) bool { return p.Severity == string(config.Error) }) {
			x.State = w.confirm(now, Invalid, Waiting)
		} else {
			w.since = time.Time{}
		}
		return x
	}
	if w.tracker == nil || w.version != x.Object.Hash {
		w.tracker, w.version, w.since = w.Track(w.key, s.Version), x.Object.Hash, time.Time{}
	}
	w.addProgress(&x, w.tracker.Progress(), now)
	return x
}

// missing returns the reason why o is not the version that the request waits for, or "" if it is.
// With Deleted, only the presence of o is compared. A higher generation than the request's is
// accepted, and a hash "" is not compared.
func (w *rolloutWatch) missing(o Object) string {
	switch {
	case w.request.Deleted && o.Present:
		return "the control plane still has the object"
	case w.request.Deleted:
		return ""
	case !o.Present:
		return "the control plane does not have the object"
	case o.Generation < w.request.Generation:
		return fmt.Sprintf("the control plane has generation %d, not yet %d", o.Generation, w.request.Generation)
	case w.request.Hash != "" && o.Hash != w.request.Hash && o.Generation > 0:
		return "the control plane has other content; it reads the object from an API server, which adds to it"
	case w.request.Hash != "" && o.Hash != w.request.Hash:
		return "the control plane has other content, from " + o.Origin
	}
	return ""
}

// confirm returns state if confirm has been called for at least confirmAfter, and until before
// that. The time starts at the first call after w.since was reset.
func (w *rolloutWatch) confirm(now time.Time, state, until RolloutState) RolloutState {
	if w.since.IsZero() {
		w.since = now
	}
	if now.Sub(w.since) < confirmAfter {
		return until
	}
	return state
}

// addProgress sets the numbers, the proxies behind, the refusals and the state of x. If the request
// selects a proxy, only that one is counted, but quarantined resources refuse the object in any
// case. A rejection that is not quarantined becomes Refused only after confirmAfter. Behind has at
// most maxBehind proxies, all of them readable for the caller.
func (w *rolloutWatch) addProgress(x *Rollout, p push.ObjectProgress, now time.Time) {
	x.Proxies, x.UpToDate = p.Proxies, p.UpToDate
	refusals := refusals{}
	if w.request.Proxy != "" {
		p.Behind = slices.DeleteFunc(p.Behind,
			func(b push.ProxyBehind) bool { return !isNamed(b.Proxy, w.request.Proxy) })
		x.Proxies, x.UpToDate = 0, 0
		if w.isConnected(w.request.Proxy, w.caller) {
			x.Proxies, x.UpToDate = 1, 1-min(1, len(p.Behind))
		}
	}
	for _, b := range p.Behind {
		refusals.addRejected(b, w.caller)
		if w.caller.CanRead(b.Proxy.Namespace) && len(x.Behind) < maxBehind {
			x.Behind = append(x.Behind, ProxyBehind{Proxy: debug.DisplayName(b.Proxy), Reason: describeBehind(b),
				Since: b.Since})
		}
	}
	for _, q := range p.Quarantined {
		refusals.addQuarantined(q)
	}
	x.Refusals = refusals.list()
	switch {
	case len(p.Quarantined) > 0:
		x.State = Refused
	case len(x.Refusals) > 0:
		x.State = w.confirm(now, Refused, Distributing)
		return
	case !p.Pushed:
		x.State = Pushing
	case len(p.Behind) > 0:
		x.State = Distributing
	default:
		x.State = Reached
	}
	w.since = time.Time{}
}

// describeBehind returns at most three resources that a proxy lacks, with their state, and the
// number of the others.
func describeBehind(b push.ProxyBehind) string {
	const shown = 3
	var parts []string
	for _, r := range b.Resources[:min(len(b.Resources), shown)] {
		what := strings.TrimSpace(api.ShortType(r.TypeURL) + " " + r.Name)
		switch r.State {
		case stream.Unsent:
			what += " not sent yet"
		case stream.Rejected:
			what += " rejected"
		default:
			what += " not acknowledged"
		}
		parts = append(parts, what)
	}
	if more := len(b.Resources) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

// refusals are the rejected resources by type and name.
type refusals map[[2]string]*Refusal

// addRejected adds the resources that the proxy rejects. The proxy's name is added only if the
// caller may read its namespace, and for at most maxBehind proxies per resource.
func (l refusals) addRejected(b push.ProxyBehind, caller debug.Caller) {
	for _, r := range b.Resources {
		if r.State != stream.Rejected {
			continue
		}
		x := l.entry(r.TypeURL, r.Name, r.Message)
		if caller.CanRead(b.Proxy.Namespace) && len(x.Proxies) < maxBehind {
			x.Proxies = append(x.Proxies, debug.DisplayName(b.Proxy))
		}
	}
}

// addQuarantined adds a resource that is withheld from proxies.
func (l refusals) addQuarantined(q push.Quarantined) {
	l.entry(q.TypeURL, q.Name, q.Message).Quarantined = true
}

// entry returns the entry of a resource. If there is none, it adds one with message, in one line.
func (l refusals) entry(typeURL, name, message string) *Refusal {
	k := [2]string{typeURL, name}
	if l[k] == nil {
		l[k] = &Refusal{Type: api.ShortType(typeURL), Resource: name,
			Message: strings.Join(strings.Fields(message), " ")}
	}
	return l[k]
}

// list returns copies of the entries, sorted by type and name of the resource, or nil.
func (l refusals) list() []Refusal {
	var list []Refusal
	for _, r := range l {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Resource, b.Resource))
	})
	return list
}
