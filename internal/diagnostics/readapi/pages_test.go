package readapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// TestPagesOfReplicas reads debug pages of this replica and of another one. A query that changes
// something is refused, and so is a caller that may not read the page.
func TestPagesOfReplicas(t *testing.T) {
	asked := ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		_ = json.NewEncoder(w).Encode(ReplicaPages{Pages: []ReplicaPage{{Replica: "istiod-2", Status: 404, Error: "not here"}}})
	}))
	t.Cleanup(other.Close)
	a := newAPI(t)
	a.Pages = debug.New(debug.Options{Snapshot: a.Snapshot, Proxies: connections{}, Access: a.Access})
	a.Peers.Addresses = []string{host(other), "127.0.0.1:1"}
	for _, c := range []struct {
		caller, path string
		code         int
		want         string
	}{
		{"", "/pages/mesh?local=true", 200, `"status":200,"body":{`},
		{"", "/pages/list?local=true", 200, `"body":["adsz",`},
		{"", "/pages/endpointz?query=brief&local=true", 200, `"status":200,"body":"`},
		{"", "/pages/absent?local=true", 200, `"status":404,"error":"there is no debug page \"absent\""`},
		{"", "/pages/adsz?query=push%3Dtrue&local=true", 200, `"status":405,"error":"this changes something: use POST below /debug"`},
		{"shop", "/pages/mesh?local=true", 200, `"status":403,"error":"namespace \"shop\" may not read mesh"`},
		{"-", "/pages/mesh?local=true", 401, ""},
		{"", "/pages/mesh?query=%25zz&local=true", 422, "query: "},
		{"", "/pages/config_dump?query=proxyID%3Dweb.shop", 200, `{"replica":"istiod-2","status":404,"error":"not here"}`},
		{"", "/pages/mesh", 200, `"unanswered":[{"address":"127.0.0.1:1"`},
	} {
		w := get(a, c.caller, c.path)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%q, %s: %d %s, want %d %s", c.caller, c.path, w.Code, w.Body, c.code, c.want)
		}
		if strings.HasPrefix(c.path, "/pages/config_dump") && asked != Prefix+"/pages/config_dump?local=true&query=proxyID%3Dweb.shop" {
			t.Errorf("requests to the other replica: %s", asked)
		}
	}
}
