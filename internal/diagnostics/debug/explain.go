package debug

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// explanation is the state of one request for explainPage. All parts of the answer are computed
// from the same snapshot, that of the View.
type explanation struct {
	*Pages
	asker    Caller
	question explain.Question
	proxy    *mesh.Proxy
	view     *view.View
}

// explainPage serves the path of a call, computed from the resources that a proxy was sent. The
// query parameters are:
//
//	proxyID    the proxy whose call is explained (required)
//	url        (required) "http://host:9080/path?query", "tcp://host:port" or "tls://server-name:port"
//	method     the HTTP method (default GET)
//	header     "name: value", may be repeated
//	protocol   "h2c" for HTTP/2, "http/1.0"
//	to         the destination "address:port" (default: as the proxy resolves the URL's host)
//	inbound    the call is inbound to the proxy's workload
//	both       also explain the call at the workload that receives it
//	callees    add the call as each endpoint's sidecar receives it (Endpoint.Received)
//	call       such a call, instead of all others: it is explained at that sidecar
//	principal  "cluster.local/ns/shop/sa/web" or "shop/web": the identity of the caller.
//	           The call is then inbound, by mutual TLS.
//	from       the caller's IP address
//	claim      "groups=a,b", of a token that is assumed to be valid; a token itself is a header
//	authorizer the answer of external authorizers: "allow", "deny", or "fail" for no answer
//	text       respond with text instead of JSON
func (p *Pages) explainPage(q question) (answer, error) {
	path, err := p.ExplainCall(q.Values, q.caller)
	if err != nil {
		return answer{}, err
	}
	if q.Has("text") {
		return answer{"text/plain; charset=utf-8", []byte(path.String())}, nil
	}
	return jsonAnswer(q, path)
}

// ExplainCall returns the path of a call, with notes. The values are the query parameters of
// explainPage. With "call", all others are ignored, and the path is that of explainReceived. It
// returns a Refusal if the proxy is not connected, the caller may not see it, or a parameter is
// malformed. It returns another error if a resource of the proxy cannot be decoded.
func (p *Pages) ExplainCall(values url.Values, caller Caller) (*explain.Path, error) {
	if values.Has("call") {
		return p.explainReceived(values.Get("call"), caller)
	}
	q := question{values, caller}
	c, err := p.findConnection(q)
	if err != nil {
		return nil, err
	}
	s := p.Snapshot()
	e := &explanation{
		Pages: p, asker: q.caller, question: questionOf(q), proxy: c.Proxy,
		view: view.Build(s, view.KeyFor(s, c.Proxy)),
	}
	call, err := explain.ParseCall(e.question, e.site())
	if err != nil {
		return nil, Refusal{http.StatusBadRequest, err.Error()}
	}
	read := readNames{}
	path, err := explain.Explain(e.resourcesOf(c, read), call)
	if err != nil {
		return nil, err
	}
	path.Notes = slices.Concat(
		e.captureNotes(call), e.resolutionNotes(call), e.hostNotes(call), e.routeNotes(call, path),
		e.deliveryNotes(c, path, read), e.subsetNotes(path), e.precedenceNotes(call, path),
	)
	if q.Has("callees") {
		e.setReceived(path)
	}
	if q.Has("both") {
		if path.Callee, err = e.explainCallee(path); err != nil {
			return nil, err
		}
	}
	return path, nil
}

// questionOf returns the call that the query parameters describe.
func questionOf(q question) explain.Question {
	return explain.Question{
		URL: q.Get("url"), Method: q.Get("method"), Headers: q.Values["header"], Protocol: q.Get("protocol"),
		To: q.Get("to"), Inbound: q.Has("inbound"), Principal: q.Get("principal"), From: q.Get("from"),
		Claims: q.Values["claim"], Authorizer: q.Get("authorizer"),
	}
}

// site returns the facts about the proxy besides its resources that a call is parsed with. Without
// e.Now its time is zero.
func (e *explanation) site() explain.Site {
	now := time.Time{}
	if e.Now != nil {
		now = e.Now()
	}
	return explain.Site{
		IsRouter: e.proxy.Type == mesh.RouterProxy, TrustDomain: e.view.Settings.TrustDomains()[0], Now: now,
		Resolve: e.addressOf, OwnPort: e.workloadPort,
	}
}

// resourcesOf returns the resources that a proxy was sent, and the objects of the snapshot, in the
// form that explain.Explain reads. Later reads by name add the resource to read.
func (e *explanation) resourcesOf(c push.Connection, read readNames) *explain.Resources {
	of := func(typeURL string) (list []*resource.Resource) {
		if w, ok := watchedType(c, typeURL); ok {
			list = w.Resources()
		}
		return list
	}
	return &explain.Resources{
		Listeners: of(api.ListenerType), Clusters: of(api.ClusterType),
		Named: func(typeURL, name string) *resource.Resource {
			for _, r := range of(typeURL) {
				if r.Name == name {
					read[r] = true
					return r
				}
			}
			return nil
		},
		Object: func(k config.Key) *config.Config { return e.view.Snapshot.Config(k) },
	}
}
