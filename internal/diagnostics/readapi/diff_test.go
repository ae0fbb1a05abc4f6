package readapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// object returns an object as YAML.
func object(kind, group, name string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: %s\nspec: {hosts: [a.example.com], http: [{directResponse: {status: 404}}]}\n---\n",
		group, kind, name)
}

func virtualService(namespace, name string) string {
	return object("VirtualService", "networking.istio.io/v1", "{name: "+name+", namespace: "+namespace+"}")
}

// newDiffAPI returns the API of newAPI with two proxies, and a Preview that returns the snapshot
// itself and records what it was asked.
func newDiffAPI(t *testing.T) (a *API, previewed *[]string) {
	t.Helper()
	previewed = new([]string)
	a = newAPI(t)
	a.Connections = func() []push.Connection {
		return []push.Connection{
			{Proxy: &mesh.Proxy{ID: "1", Type: mesh.SidecarProxy, Name: "a", Namespace: "shop"}},
			{Proxy: &mesh.Proxy{ID: "2", Type: mesh.SidecarProxy, Name: "b", Namespace: "other"}},
			{Proxy: &mesh.Proxy{ID: "3", Name: "c", Namespace: "shop", Metadata: mesh.NodeMetadata{Generator: "grpc"}}},
		}
	}
	a.Table, a.Unhonoured = translate.NewTable(translate.Options{}), translate.Unhonoured
	a.Preview = func(_ context.Context, changed []*config.Config, deleted []config.Key, problems []config.Problem) (b, c *snapshot.Snapshot, err error) {
		*previewed = append(*previewed, fmt.Sprintf("%d changed, %d deleted, %d problems", len(changed), len(deleted), len(problems)))
		return a.Snapshot(), a.Snapshot(), nil
	}
	return a, previewed
}

// post submits a change as an identity of the namespace, as get does.
func post(a *API, namespace, query, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+Prefix+"/diff?"+query, strings.NewReader(body))
	r.RemoteAddr = "10.0.0.1:1234"
	switch namespace {
	case "":
		r.RemoteAddr = "127.0.0.1:1234"
	case "-":
	default:
		r.Header.Set("Namespace", namespace)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// TestDiffAccess submits changes as different callers. A refused change must not be computed.
func TestDiffAccess(t *testing.T) {
	var many strings.Builder
	for i := range maxDiffObjects + 1 {
		many.WriteString(virtualService("shop", fmt.Sprint("n-", i)))
	}
	deletion := func(k string) string { return url.Values{"delete": {k}}.Encode() }
	for name, c := range map[string]struct {
		caller, query, body string
		header              []string
		status              int
		want                string
	}{
		"the machine itself":          {body: virtualService("shop", "a") + virtualService("other", "a"), status: 200, want: `"proxies":2`},
		"a system namespace":          {caller: "istio-system", body: virtualService("other", "a"), status: 200, want: `"proxies":2`},
		"an owner":                    {caller: "shop", body: virtualService("shop", "a"), status: 200, want: `"proxies":1`},
		"an owner deletes":            {caller: "shop", query: deletion("VirtualService/shop/reviews"), status: 200, want: `"replica":"istiod-1"`},
		"an owner of another object":  {caller: "other", body: virtualService("shop", "a"), status: 403, want: "may not submit"},
		"an owner, one of two":        {caller: "shop", body: virtualService("shop", "a") + virtualService("other", "a"), status: 403, want: "may not submit"},
		"a broken one of another":     {caller: "shop", body: strings.Replace(virtualService("other", "a"), "http:", "htp:", 1), status: 403, want: "may not submit"},
		"an owner deletes another":    {caller: "shop", query: deletion("VirtualService/other/reviews"), status: 403, want: "may not submit"},
		"an owner, no namespace":      {caller: "shop", body: "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: ours}\nspec: {controllerName: a.example.com/b}\n", status: 403, want: "may not submit"},
		"an owner and another proxy":  {caller: "shop", query: "proxy=b", body: virtualService("shop", "a"), status: 404, want: "no proxy"},
		"without a token":             {caller: "-", body: virtualService("shop", "a"), status: 401},
		"a page of another site":      {body: virtualService("shop", "a"), header: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, want: "cross-origin"},
		"a page of another origin":    {body: virtualService("shop", "a"), header: []string{"Origin", "http://evil.example.com"}, status: 403, want: "cross-origin"},
		"an object with an error":     {caller: "shop", body: strings.Replace(virtualService("shop", "a"), "http:", "htp:", 1), status: 200},
		"a proxy":                     {query: "proxy=b.other", body: virtualService("shop", "a"), status: 200, want: `"proxies":1`},
		"proxies of a namespace":      {query: "namespace=other", body: virtualService("shop", "a"), status: 200, want: `"proxies":1`},
		"a Secret":                    {body: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: shop}\n", status: 422, want: "Secrets are not accepted"},
		"no object":                   {body: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n", status: 422, want: "no object"},
		"invalid YAML":                {body: "}", status: 422, want: "document 1"},
		"invalid YAML of an owner":    {caller: "shop", body: "}", status: 422, want: "document 1"},
		"too many objects":            {body: many.String(), status: 422, want: "more than 500"},
		"a body that is too large":    {body: "# " + strings.Repeat("x", maxDiffBody), status: 413},
		"deletion of an unknown kind": {query: deletion("Nonsense/shop/a"), status: 422, want: "is not read"},
		"deletion, no namespace":      {query: deletion("VirtualService/a"), status: 422, want: "want KIND/NAMESPACE/NAME"},
	} {
		a, previewed := newDiffAPI(t)
		w := post(a, c.caller, c.query, c.body, c.header...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d and %q", name, w.Code, w.Body, c.status, c.want)
		}
		if computed := len(*previewed) > 0; computed != (c.status == 200 || c.status == 404) {
			t.Errorf("%s: computed %v", name, *previewed)
		}
	}
}

// TestOneDiffAtATime refuses a request while another one is computed.
func TestOneDiffAtATime(t *testing.T) {
	a, _ := newDiffAPI(t)
	started, release := make(chan struct{}), make(chan struct{})
	a.Preview = func(context.Context, []*config.Config, []config.Key, []config.Problem) (b, c *snapshot.Snapshot, err error) {
		close(started)
		<-release
		return nil, nil, ingest.ErrNotSynced
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- post(a, "", "", virtualService("shop", "a")) }()
	<-started
	if w := post(a, "", "", virtualService("shop", "a")); w.Code != http.StatusTooManyRequests {
		t.Errorf("the second request: %d %s", w.Code, w.Body)
	}
	close(release)
	if w := <-first; w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "has not read all") {
		t.Errorf("the first request: %d %s", w.Code, w.Body)
	}
}
