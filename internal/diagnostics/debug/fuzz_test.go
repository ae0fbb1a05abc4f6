package debug

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// FuzzPages: no query of a debug page causes an internal error, and a client that may read only the
// pages of one namespace is not shown objects of another one.
func FuzzPages(f *testing.F) {
	for _, s := range [][2]string{
		{"config_dump", "proxyID=web-1.shop"}, {"syncz", ""}, {"explain", "proxyID=web-1.shop&url=http://a/b&header=x=y"}, {"ndsz", "proxyID=%00"}, {"endpointz", "brief=x"}, {"..", ""}, {"pprof/profile", "seconds=-1"},
		{"edsz", "proxyID[]=a&proxyID=b"}, {"nackz", ";;&&=="}, {"sidecarz", "proxyID=web-1.shop"}, {"cachez", "sizes=true"},
	} {
		f.Add(s[0], s[1], false)
		f.Add(s[0], s[1], true)
	}
	o := pagesOf(f, fixture.New(f, nil, nil), twoProxies(f)).Options
	o.Disconnect = func(string) bool { return true }
	o.Access.Authenticate = func(*http.Request) (string, error) { return "elsewhere", nil }
	p := New(o)
	f.Fuzz(func(t *testing.T, page, query string, remote bool) {
		if len(page)+len(query) > 4<<10 || len(page) >= 5 && page[:5] == "pprof" {
			return // a profile takes as long as it is asked to
		}
		r := httptest.NewRequest(http.MethodGet, "http://localhost/debug/", nil)
		r.URL = &url.URL{Path: "/debug/" + page, RawQuery: query}
		r.RemoteAddr, r.Host = "127.0.0.1:9", "localhost"
		if remote {
			r.RemoteAddr = "192.0.2.1:9"
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%q?%q: %d %.200s", page, query, w.Code, w.Body)
		}
		if remote && w.Code == http.StatusOK && page == "config_dump" {
			t.Errorf("%q?%q: another namespace's page was shown: %.200s", page, query, w.Body)
		}
	})
}
