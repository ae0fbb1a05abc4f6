package discovery

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// readers returns the names of the debug pages that proxies may read about their own namespace, and
// the names of the pages for operators only. A new page must be added to one of the two lists.
func readers() (own, operators []string) {
	return []string{"config_dump", "edsz", "explain", "ndsz"}, []string{
		"adsz", "adsz?push=true", "authorizationz", "cachez", "cachez?clear=true", "cachez?sizes=true", "clusterz", "configz", "connections", "describe", "ecdsz", "endpointShardz", "endpointz",
		"inject", "instancesz", "krtz", "mcsz", "mesh", "nackz", "networkz", "problemz", "push_status", "pushcontext", "registryz", "resourcesz", "scopez",
		"sidecarz", "syncz", "telemetryz",
	}
}

// TestTokensOpenPages enumerates the pages of a running control plane and requests each with
// different tokens, over HTTP from another machine and over xDS. T-DEBUG-AUTHZ.
func TestTokensOpenPages(t *testing.T) {
	scorecard.Check(t, 39)
	l := startLaptop(t, func(*Options) {})
	pagesHandler := l.server.handler(nil) // of the same control plane, without the address that it listens on
	list, err := l.get("/debug/list")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	if err := json.Unmarshal([]byte(list), &pages); err != nil {
		t.Fatal(err)
	}
	if len(pages) < 25 {
		t.Fatalf("found only %d pages: the test is not effective", len(pages))
	}
	known := map[string]bool{}
	own, operators := readers()
	for _, name := range own {
		known[name] = true
	}
	for _, name := range operators {
		known[name] = false
	}
	bearers := map[string]string{
		"no token": "", "garbage": "x.y.z", "another audience": l.token("istio-system", "istiod", time.Hour, "other"), "expired": l.token("istio-system", "istiod", -time.Hour, "istio-ca"),
		"workload": l.token("shop", "web", time.Hour, "istio-ca"), "system": l.token("istio-system", "istiod", time.Hour, "istio-ca"),
	}
	for _, name := range pages {
		mine, ok := known[name]
		if !ok {
			t.Errorf("page %s is in no list of readers: add it to one", name)
			continue
		}
		for who, token := range bearers {
			want := http.StatusUnauthorized
			switch {
			case who == "system" && mine, who == "workload" && mine:
				want = 0 // the query names no proxy, or an unknown one: access was granted
			case who == "system":
				want = http.StatusOK
			case who == "workload":
				want = http.StatusForbidden
			}
			got := fromElsewhere(pagesHandler, "/debug/"+name, token)
			if want != 0 && got != want && !(want == http.StatusOK && (got == http.StatusBadRequest || got == http.StatusNotFound)) ||
				want == 0 && (got == http.StatusUnauthorized || got == http.StatusForbidden) {
				t.Errorf("%s with the token of %s: %d, want %d", name, who, got, want)
			}
			if strings.Contains(name, "push") || strings.Contains(name, "clear") {
				continue
			}
			checkOverXDS(t, l, name, who, token, mine)
		}
	}
}

func fromElsewhere(h http.Handler, path, token string) int {
	method := http.MethodGet
	if strings.Contains(path, "push=") || strings.Contains(path, "clear=") {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "http://10.9.9.9:15014"+path, nil)
	r.RemoteAddr = "10.1.2.3:4567"
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func checkOverXDS(t *testing.T, l *laptop, name, who, token string, mine bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if token != "" {
		ctx = bearing(ctx, token)
	}
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.dial(nil)).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = st.Send(&discoveryv3.DiscoveryRequest{Node: node("shop", nil), TypeUrl: "istio.io/debug", ResourceNames: []string{name}}) // Recv returns the status
	_, err = st.Recv()
	want := codes.Unauthenticated
	switch {
	case who == "system", who == "workload" && mine:
		want = codes.OK
	case who == "workload":
		want = codes.PermissionDenied
	}
	if status.Code(err) != want {
		t.Errorf("xDS: %s with the token of %s: %v, want %v", name, who, err, want)
	}
}

// TestAuthenticationIsNotOpenBeforeTheAuthorityIs: until the authority is available no token is
// accepted, and clients may try again.
func TestAuthenticationIsNotOpenBeforeTheAuthorityIs(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	o := testOptions(t, t.TempDir())
	o.Authority.Dir = filepath.Join(l.caDir)
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := fromElsewhere(s.handler(nil), "/debug/syncz", l.token("istio-system", "istiod", time.Hour, "istio-ca")); got != http.StatusServiceUnavailable {
		t.Errorf("got status %d", got)
	}
}

// TestDebugPagesCanBeDisabled: with ENABLE_DEBUG_ON_HTTP=false, the HTTP ports serve neither debug pages
// nor profiles, and the other pages stay.
func TestDebugPagesCanBeDisabled(t *testing.T) {
	l := startLaptop(t, func(o *Options) { o.Debug.HTTP = false })
	handler := l.server.handler(nil)
	for path, want := range map[string]int{
		"/debug": http.StatusNotFound, "/debug/syncz": http.StatusNotFound, "/debug/pprof/heap": http.StatusNotFound,
		"/metrics": http.StatusOK, "/version": http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
