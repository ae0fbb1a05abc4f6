package debug

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// asker is an HTTP client with its credentials.
type asker struct{ name, from, host, namespace string }

// ownPages are the pages that a workload may read, about proxies of its own namespace. An added
// page is not among them until it is listed here.
func ownPages() map[string]bool {
	return map[string]bool{"config_dump": true, "edsz": true, "explain": true, "ndsz": true}
}

func get(p http.Handler, a asker, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+a.host+path, nil)
	r.RemoteAddr, r.Host = a.from, a.host
	r.Header.Set("Namespace", a.namespace)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func guarded(t *testing.T) *Pages {
	t.Helper()
	p := pagesOf(t, fixture.New(t, nil, nil), twoProxies(t))
	o := p.Options
	o.Disconnect = func(string) bool { return true }
	o.Access.Authenticate = func(r *http.Request) (string, error) {
		switch ns := r.Header.Get("Namespace"); ns {
		case "wrong":
			return "", errors.New("the token has another audience")
		case "unreviewed":
			return "", fmt.Errorf("%w: the API server does not answer", authenticate.ErrUnavailable)
		default:
			return ns, nil
		}
	}
	return New(o)
}

// TestReadersOfPages requests every page as every kind of client.
func TestReadersOfPages(t *testing.T) {
	scorecard.Check(t, 39)
	p := guarded(t)
	paths := map[string]bool{
		"/debug":               false,
		"/debug/":              false,
		"/debug/pprof/":        false,
		"/debug/pprof/cmdline": false,
		"/debug/pprof/symbol":  false,
	}
	for _, x := range p.table {
		paths["/debug/"+x.name+"?proxyID=web-1.shop&url=tcp://10.2.0.1:80"] = ownPages()[x.name]
	}
	if len(paths) < 30 {
		t.Fatalf("only %d pages: the test is not effective", len(paths))
	}
	for path, own := range paths {
		for _, c := range []struct {
			asker
			want int
		}{
			{asker{"a process on the machine", "127.0.0.1:9", "127.0.0.1:8080", ""}, 200},
			{asker{"the same over IPv6", "[::1]:9", "[::1]:8080", ""}, 200},
			{asker{"a forwarded port", "127.0.0.1:9", "localhost:8080", ""}, 200},
			{asker{"a page of another site in a browser on the machine", "127.0.0.1:9", "evil.example.com:8080", ""}, 403},
			{asker{"a client without credentials", "10.0.0.1:9", "10.0.0.2:8080", ""}, 401},
			{asker{"a client with an invalid token", "10.0.0.1:9", "10.0.0.2:8080", "wrong"}, 401},
			{asker{"a client whose token cannot be reviewed now", "10.0.0.1:9", "10.0.0.2:8080", "unreviewed"}, 503},
			{asker{"a remote client with a loopback Host header", "10.0.0.1:9", "127.0.0.1:8080", ""}, 401},
			{asker{"an identity of the system namespace", "10.0.0.1:9", "10.0.0.2:8080", "istio-system"}, 200},
			{asker{"a workload of the proxy's namespace", "10.0.0.1:9", "10.0.0.2:8080", "shop"}, map[bool]int{true: 200, false: 403}[own]},
			{asker{"a workload of another namespace", "10.0.0.1:9", "10.0.0.2:8080", "bank"}, map[bool]int{true: 404, false: 403}[own]},
		} {
			if got := get(p, c.asker, method(path), path).Code; got != c.want {
				t.Errorf("%s requests %s: status %d, want %d", c.name, path, got, c.want)
			}
		}
	}
}

// TestAccessSettings: without an authentication method no remote client has access. With namespace
// rules disabled every identity may read everything.
func TestAccessSettings(t *testing.T) {
	outside := asker{"", "10.0.0.1:9", "10.0.0.2:8080", "shop"}
	o := guarded(t).Options
	o.Access.AnyNamespace = true
	if got := get(New(o), outside, http.MethodGet, "/debug/syncz").Code; got != 200 {
		t.Errorf("any namespace: %d", got)
	}
	o.Access.Authenticate = nil
	if got := get(New(o), outside, http.MethodGet, "/debug/syncz").Code; got != 401 {
		t.Errorf("no authentication: %d", got)
	}
}

func TestPagesAreRead(t *testing.T) {
	p := guarded(t)
	w := get(p, asker{from: "127.0.0.1:9", host: "localhost"}, http.MethodPost, "/debug/syncz")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

// TestAnswersOverHTTP: content types, and istiod's words and statuses where a proxy is missing.
func TestAnswersOverHTTP(t *testing.T) {
	p := guarded(t)
	for path, want := range map[string]struct {
		status      int
		contentType string
		body        string
	}{
		"/debug/syncz":                        {200, "application/json", `"proxy":"web-1.shop"`},
		"/debug/endpointz?brief":              {200, "text/plain", ""},
		"/debug/adsz?push=true":               {200, "text/plain", "Pushed to 2 servers"},
		"/debug/cachez?clear=true":            {200, "text/plain", "Nothing to clear"},
		"/debug":                              {200, "text/html", "href='/debug/syncz'"},
		"/debug/":                             {200, "text/html", "/debug/pprof/"},
		"/debug/config_dump":                  {400, "text/plain", "You must provide a proxyID"},
		"/debug/config_dump?proxyID=nobody":   {404, "text/plain", "Proxy not connected to this Pilot instance"},
		"/debug/adsz?proxyID=nobody":          {404, "text/plain", "Proxy not connected"},
		"/debug/force_disconnect?proxyID=web": {200, "text/plain", "OK"},
		"/debug/nothing":                      {404, "text/plain", ""},
		"/debug/cdsz":                         {410, "text/plain", "/debug/config_dump?proxyID= has the clusters"},
		"/debug/workloadz?proxyID=a":          {410, "text/plain", "/debug/instancesz"},
		"/debug/authenticationz":              {410, "text/plain", "/debug/configz?kind=PeerAuthentication"},
	} {
		w := get(p, asker{from: "127.0.0.1:9", host: "localhost"}, method(path), path)
		body, _ := io.ReadAll(w.Body)
		if w.Code != want.status || !strings.HasPrefix(w.Header().Get("Content-Type"), want.contentType) ||
			!strings.Contains(string(body), want.body) {
			t.Errorf("%s: %d %s %.200s", path, w.Code, w.Header().Get("Content-Type"), body)
		}
	}
	o := p.Options
	o.Disconnect, o.Profile = nil, false
	for path, method := range map[string]string{"/debug/force_disconnect?proxyID=web-1": http.MethodPost, "/debug/pprof/": http.MethodGet} {
		if w := get(New(o), asker{from: "127.0.0.1:9", host: "localhost"}, method, path); w.Code != 404 {
			t.Errorf("%s is served although it is disabled: %d", path, w.Code)
		}
	}
}

// method returns the HTTP method with which a page is requested.
func method(path string) string {
	if strings.Contains(path, "push=") || strings.Contains(path, "clear=") || strings.Contains(path, "force_") {
		return http.MethodPost
	}
	return http.MethodGet
}

// TestChangesNeedPOST: a GET, as of an image or a link of a web site, changes nothing, and neither
// does a POST of another site. Programs, and pages of the same origin, may change settings.
func TestChangesNeedPOST(t *testing.T) {
	o := guarded(t).Options
	pushes, ended := 0, 0
	o.Push, o.Disconnect = func() { pushes++ }, func(string) bool { ended++; return true }
	p := New(o)
	for _, path := range []string{"/debug/adsz?push=true", "/debug/adsz?push=1&pretty", "/debug/cachez?clear=true", "/debug/force_disconnect?proxyID=web-1"} {
		for _, c := range []struct {
			name, method  string
			header, value string
			want          int
		}{
			{"a program", http.MethodPost, "", "", 200},
			{"a page of this address", http.MethodPost, "Sec-Fetch-Site", "same-origin", 200},
			{"a page of this address, of an old browser", http.MethodPost, "Origin", "http://localhost", 200},
			{"a GET", http.MethodGet, "", "", 405},
			{"a HEAD", http.MethodHead, "", "", 405},
			{"a PUT", http.MethodPut, "", "", 405},
			{"an image of another site", http.MethodGet, "Sec-Fetch-Site", "cross-site", 405},
			{"a form of another site", http.MethodPost, "Sec-Fetch-Site", "cross-site", 403},
			{"a form of a neighbour", http.MethodPost, "Sec-Fetch-Site", "same-site", 403},
			{"a form of another site, of an old browser", http.MethodPost, "Origin", "https://evil.example.com", 403},
			{"a form of a file", http.MethodPost, "Origin", "null", 403},
		} {
			pushed, disconnected := pushes, ended
			r := httptest.NewRequest(c.method, "http://localhost"+path, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:9", "localhost"
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			changed := pushes > pushed || ended > disconnected
			if w.Code != c.want || changed && c.want != 200 ||
				!changed && c.want == 200 && !strings.Contains(path, "cachez") {
				t.Errorf("%s, %s: %d, changed %v; want %d", path, c.name, w.Code, changed, c.want)
			}
		}
	}
}

// TestPageWithoutHTTP: the same access rules apply to requests over xDS.
func TestPageWithoutHTTP(t *testing.T) {
	p := guarded(t)
	for resource, want := range map[string]struct {
		namespace string
		status    int
	}{
		"syncz":                         {"", 0},
		"syncz?namespace=shop":          {"", 0},
		"config_dump?proxyID=web-1":     {"shop", 0},
		"config_dump?proxyID=pay-1":     {"shop", http.StatusNotFound},
		"registryz":                     {"shop", http.StatusForbidden},
		"nothing":                       {"", http.StatusNotFound},
		"cdsz":                          {"", http.StatusGone},
		"%zz":                           {"", http.StatusBadRequest},
		"config_dump":                   {"", http.StatusBadRequest},
		"edsz?proxyID=web-1&cluster=no": {"shop", 0},
	} {
		body, err := p.Page(resource, Caller{Namespace: want.namespace})
		refusal := Refusal{}
		if want.status == 0 && (err != nil || len(body) == 0) ||
			want.status != 0 && (!errors.As(err, &refusal) || refusal.Status != want.status) {
			t.Errorf("%q for %q: %v, want %d", resource, want.namespace, err, want.status)
		}
	}
}

func TestPageNeedsAnAudience(t *testing.T) {
	if (audience(0)).includes(Caller{}) {
		t.Error("a page without an access rule is shown to operators")
	}
}

// TestCallerIsReviewedOnce: a token that is good at the first look and not at the second opens
// nothing that it should not.
func TestCallerIsReviewedOnce(t *testing.T) {
	o := guarded(t).Options
	looks := 0
	o.Access.Authenticate = func(*http.Request) (string, error) {
		if looks++; looks > 1 {
			return "", errors.New("the token has ended")
		}
		return "bank", nil
	}
	w := get(
		New(o),
		asker{from: "10.0.0.1:9", host: "10.0.0.2:8080"},
		http.MethodGet,
		"/debug/config_dump?proxyID=web-1.shop",
	)
	if w.Code != http.StatusNotFound || looks != 1 {
		t.Errorf("after %d looks the answer is %d", looks, w.Code)
	}
}

// TestPagesTakeAnyParameters: whatever is asked of a page, and whatever is left out, it is an
// answer, and no fault of the control plane's (CVE-2019-25014).
func TestPagesTakeAnyParameters(t *testing.T) {
	p := guarded(t)
	names := []string{
		"proxyID",
		"proxyID[]",
		"resource",
		"resources",
		"types",
		"names",
		"namespace",
		"svc",
		"url",
		"from",
		"to",
		"method",
		"header",
		"principal",
		"claim",
		"token",
		"both",
		"brief",
		"push",
		"clear",
		"sizes",
		"proxy",
		"ip",
		"host",
		"port",
		"subset",
		"cluster",
		"typeurl",
		"config",
		"json",
		"y",
		"level",
	}
	values := []string{
		"",
		"web-1.shop",
		"nobody",
		".",
		"..",
		"/",
		"a/b/c",
		"%",
		"*",
		"-1",
		"1e400",
		"18446744073709551616",
		"null",
		"[]",
		"{",
		"http://",
		"tcp://10.2.0.1",
		"tls://:99999",
		"https://[::1]:443/%zz",
		"spiffe://",
		"\x00",
		"\xff",
		"x=y",
		"=",
		":",
		"GET",
		strings.Repeat("a", 20_000),
	}
	asked := 0
	for _, x := range p.table {
		for _, n := range names {
			for i, v := range values {
				q := url.Values{n: {v}}
				if i%2 == 0 {
					q.Set("proxyID", "web-1.shop")
					q.Add(n, v)
				}
				w := get(
					p,
					asker{from: "127.0.0.1:9", host: "localhost"},
					http.MethodGet,
					"/debug/"+x.name+"?"+q.Encode(),
				)
				if asked++; w.Code >= http.StatusInternalServerError {
					t.Errorf("%s?%s=%.40q: %d %.200s", x.name, n, v, w.Code, w.Body)
				}
			}
		}
	}
	if asked < 10_000 {
		t.Errorf("only %d pages were requested", asked)
	}
}
