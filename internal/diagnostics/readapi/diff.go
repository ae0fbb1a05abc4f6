package readapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Limits of a comparison. One is computed at a time, so these bound the whole API.
const (
	maxDiffBody    = 1 << 20
	maxDiffObjects = 500
	// maxDiffTime is how long a comparison may take.
	maxDiffTime = 20 * time.Second
	// maxDifferences limits the resources that a report describes.
	maxDifferences = 5_000
)

// DiffRequest is a change of objects whose effect is computed.
type DiffRequest struct {
	Aggregation
	Delete  []string `query:"delete,explode" doc:"Objects that are deleted: KIND/NAMESPACE/NAME, or KIND/NAME for kinds without namespaces."`
	Proxy   string   `query:"proxy" doc:"Only this proxy: NAME or NAME.NAMESPACE."`
	Of      string   `query:"namespace" doc:"Only proxies of this namespace."`
	RawBody []byte   `contentType:"application/yaml" doc:"Added and changed objects as YAML or JSON documents."`
}

// DiffReport is the effect of a change on the proxies of all replicas.
type DiffReport struct {
	diff.Report
	// Replica is the replica that answers.
	Replica string `json:"replica,omitempty" doc:"The replica of the control plane that answers."`
	// Unanswered are the replicas whose proxies are not compared.
	Unanswered []Unanswered `json:"unanswered,omitempty" doc:"Replicas whose proxies are not compared."`
}

// registerDiff adds the operation that computes the effect of a change. It is a POST because it has
// a body; it changes nothing.
func (a *API) registerDiff() {
	huma.Register(a.api, huma.Operation{
		OperationID: "diff", Method: http.MethodPost, Path: Prefix + "/diff", MaxBodyBytes: maxDiffBody,
		Summary: "What a change of objects would do to the connected proxies; nothing is changed",
		Errors: []int{
			http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
			http.StatusUnprocessableEntity,
			http.StatusTooManyRequests, http.StatusServiceUnavailable,
		},
		Middlewares: huma.Middlewares{a.refuseForeignSites},
	}, a.diff)
	a.api.OpenAPI().Paths[Prefix+"/diff"].Post.RequestBody.Required = false // a deletion has none
}

// refuseForeignSites answers 403 to requests that a browser sends for a page of another site, and
// calls next for all others.
func (a *API) refuseForeignSites(c huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(c)
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		_ = huma.WriteErr(a.api, c, http.StatusForbidden, err.Error()) // fails only if the client has gone
		return
	}
	next(c)
}

// diff serves the effect of a change, with the reports of the selected peers added. It answers with
// the errors of readChange, and with 429 while another change is compared. It answers 503 if the
// change cannot be computed or takes longer than maxDiffTime. It answers 404 if the selected proxy
// is not connected and no other replica is asked.
func (a *API) diff(ctx context.Context, r *DiffRequest) (*struct{ Body DiffReport }, error) {
	caller := callerOf(ctx)
	change, err := readChange(r, caller)
	if err != nil {
		return nil, err
	}
	select {
	case a.diffing <- struct{}{}:
		defer func() { <-a.diffing }()
	default:
		return nil, huma.Error429TooManyRequests("another comparison is being computed; try again")
	}
	ctx, cancel := context.WithTimeout(ctx, maxDiffTime)
	defer cancel()
	before, after, err := a.Preview(ctx, change.changed, change.deleted, change.problems)
	if err != nil {
		return nil, huma.Error503ServiceUnavailable("the change cannot be computed: " + err.Error())
	}
	in := diff.NewInput(a.Table, a.Unhonoured)
	in.Before, in.After, in.Stop, in.MaxDifferences = before, after, ctx.Err, maxDifferences
	in.Proxies = a.comparedProxies(r, caller)
	peers := a.peersOf(r.Aggregation)
	if r.Proxy != "" && len(in.Proxies) == 0 && len(peers) == 0 {
		return nil, huma.Error404NotFound(fmt.Sprintf("no proxy %q is connected to this control plane", r.Proxy))
	}
	report, err := diff.Compare(in)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, huma.Error503ServiceUnavailable(
			fmt.Sprintf("the comparison takes longer than %s: select a proxy or a namespace", maxDiffTime))
	}
	if err != nil {
		return nil, err // the client has gone
	}
	hideForeignProblems(report, caller)
	body := DiffReport{Report: *report, Replica: a.Replica}
	a.addPeerReports(ctx, r, peers, &body)
	return &struct{ Body DiffReport }{body}, nil
}

// addPeerReports merges the reports of other replicas on their proxies into body. A replica that
// does not answer is added to Unanswered, except for 404 if a proxy is selected: it is connected
// elsewhere.
func (a *API) addPeerReports(ctx context.Context, r *DiffRequest, peers []string, body *DiffReport) {
	query := url.Values{"delete": r.Delete, "proxy": {r.Proxy}, "namespace": {r.Of}}
	answers := collectAnswers(a, peers, func(address string) (x DiffReport, err error) {
		return x, readPeer(ctx, http.MethodPost, address, "/diff", query, r.RawBody, maxDiffTime, &x)
	})
	for _, one := range answers {
		var failed *peerError
		switch {
		// it is connected elsewhere
		case errors.As(one.err, &failed) && failed.status == http.StatusNotFound && r.Proxy != "":
		case one.err != nil:
			body.Unanswered = append(body.Unanswered, newUnanswered(one.address, one.err))
		default:
			body.Report.Merge(&one.value.Report)
		}
	}
}

// comparedProxies returns the connected proxies that the caller may see and the request selects,
// each once, sorted by ID. gRPC applications without a proxy are left out. An empty name or
// namespace selects all.
func (a *API) comparedProxies(r *DiffRequest, caller debug.Caller) []*mesh.Proxy {
	var list []*mesh.Proxy
	seen := map[string]bool{}
	for _, c := range a.Connections() {
		p := c.Proxy
		if caller.CanRead(p.Namespace) && (r.Of == "" || r.Of == p.Namespace) &&
			(r.Proxy == "" || isNamed(p, r.Proxy)) &&
			p.Metadata.Generator == "" && !seen[p.ID] {
			seen[p.ID] = true
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *mesh.Proxy) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// hideForeignProblems removes from r the new and resolved Problems of objects that the caller may
// not read.
func hideForeignProblems(r *diff.Report, caller debug.Caller) {
	hidden := func(p debug.Problem) bool { return !caller.CanRead(p.Namespace) }
	r.NewProblems = slices.DeleteFunc(r.NewProblems, hidden)
	r.ResolvedProblems = slices.DeleteFunc(r.ResolvedProblems, hidden)
}

// change are the objects of a DiffRequest.
type change struct {
	changed  []*config.Config
	deleted  []config.Key
	problems []config.Problem
}

// readChange decodes the objects of a request and the keys of its deletions. It refuses objects of
// namespaces that the caller may not read, Secrets, unreadable documents, more than maxDiffObjects
// objects, malformed keys, and a request without a change. Objects of kinds that are not read are
// skipped. Objects with errors are left out, but their Problems are returned and count as a change.
func readChange(r *DiffRequest, caller debug.Caller) (change, error) {
	var c change
	for _, d := range decode.Manifest("request", r.RawBody) {
		if d.IsUnreadable() {
			return c, huma.Error422UnprocessableEntity(fmt.Sprintf("document %d: %s %s", d.Document,
				d.Problems[0].Field, d.Problems[0].Reason))
		}
		if d.Foreign {
			continue
		}
		c.problems = append(c.problems, d.Problems...)
		if err := checkSubmitted(d.Key, caller); err != nil {
			return c, err
		}
		if d.Config != nil {
			c.changed = append(c.changed, d.Config)
		}
	}
	for _, text := range r.Delete {
		k, err := parseKey(text)
		if err == nil {
			err = checkSubmitted(k, caller)
		}
		if err != nil {
			return c, err
		}
		c.deleted = append(c.deleted, k)
	}
	switch n := len(c.changed) + len(c.deleted); {
	case n+len(c.problems) == 0:
		return c, huma.Error422UnprocessableEntity("the request has no object that the control plane reads")
	case n > maxDiffObjects:
		return c, huma.Error422UnprocessableEntity(fmt.Sprintf("%d objects, more than %d", n, maxDiffObjects))
	}
	return c, nil
}

// checkSubmitted returns a 403 error for an object in a namespace that the caller may not read, and
// a 422 error for a Secret.
func checkSubmitted(k config.Key, caller debug.Caller) error {
	switch {
	case !caller.CanRead(k.Namespace):
		return huma.Error403Forbidden(fmt.Sprintf("namespace %q may not submit %s", caller.Namespace, k))
	case k.Kind == api.Secret:
		return huma.Error422UnprocessableEntity("Secrets are not accepted: the control plane reads them from an API server only")
	}
	return nil
}

// parseKey parses KIND/NAMESPACE/NAME, or KIND/NAME for cluster-scoped kinds, with the kind in its
// exact case. It returns a 422 error for another form or an unknown kind. Names are not validated.
func parseKey(text string) (config.Key, error) {
	parts := strings.Split(text, "/")
	info, known := api.Info(api.Kind(parts[0]))
	k := config.Key{Kind: info.Kind, Name: parts[len(parts)-1]}
	switch {
	case !known:
		return k, huma.Error422UnprocessableEntity(fmt.Sprintf("kind %q is not read by this control plane", parts[0]))
	case info.ClusterScoped && len(parts) == 2:
	case !info.ClusterScoped && len(parts) == 3:
		k.Namespace = parts[1]
	default:
		return k, huma.Error422UnprocessableEntity(fmt.Sprintf("delete %q: want KIND/NAMESPACE/NAME", text))
	}
	return k, nil
}
