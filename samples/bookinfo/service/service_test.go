package service_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/samples/bookinfo/service"
)

// serve runs a service and returns its "host:port". Each request it gets is shown to see first.
func serve(t *testing.T, opts service.Options, see func(*http.Request)) string {
	t.Helper()
	handler, err := service.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if see != nil {
			see(r)
		}
		handler.ServeHTTP(w, r)
	}))
}

func serveHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

func get(t *testing.T, url string, header http.Header) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, strings.TrimSpace(string(body))
}

// bookinfo runs all services, reviews in the given version.
func bookinfo(t *testing.T, version string, see func(*http.Request)) (productpage, ratings string) {
	t.Helper()
	ratings = serve(t, service.Options{Name: "ratings"}, see)
	details := serve(t, service.Options{Name: "details"}, see)
	reviews := serve(t, service.Options{
		Name: "reviews", Version: version, PodName: "reviews-" + version, ClusterName: "null", Ratings: ratings,
	}, see)
	productpage = serve(t, service.Options{Name: "productpage", Details: details, Reviews: reviews, Ratings: ratings}, nil)
	return productpage, ratings
}

func TestAnswers(t *testing.T) {
	productpage, ratings := bookinfo(t, "v2", nil)
	details := serve(t, service.Options{Name: "details"}, nil)
	reviews := serve(t, service.Options{Name: "reviews", Version: "v1", PodName: "p", ClusterName: "c"}, nil)

	const book = `{"id":0,"author":"William Shakespeare","year":1595,"type":"paperback","pages":200,` +
		`"publisher":"PublisherA","language":"English","ISBN-10":"1234567890","ISBN-13":"123-1234567890"}`
	const stars = `{"id":0,"ratings":{"Reviewer1":5,"Reviewer2":4}}`
	for _, c := range []struct {
		url    string
		status int
		want   string // JSON, or text
	}{
		{details + "/details/0", 200, book},
		{details + "/details/x", 400, `{"error":"please provide numeric product id"}`},
		{details + "/health", 200, `{"status":"Details is healthy"}`},
		{ratings + "/ratings/0", 200, stars},
		{ratings + "/ratings/7", 200, `{"id":7,"ratings":{"Reviewer1":5,"Reviewer2":4}}`},
		{ratings + "/ratings/x", 400, `{"error":"please provide numeric product ID"}`},
		{ratings + "/health", 200, `{"status":"Ratings is healthy"}`},
		{reviews + "/health", 200, `{"status":"Reviews is healthy"}`},
		{reviews + "/reviews/x", 400, `{"error":"please provide numeric product id"}`},
		{productpage + "/health", 200, `Product page is healthy`},
		{productpage + "/api/v1/products/0", 200, book},
		{productpage + "/api/v1/products/0/ratings", 200, stars},
		{productpage + "/api/v1/products/x", 400, `{"error":"Sorry, product details are currently unavailable for this book."}`},
		{productpage + "/nowhere", 404, `404 page not found`},
	} {
		status, _, body := get(t, c.url, nil)
		if status != c.status {
			t.Errorf("GET %s: status %d, want %d", c.url, status, c.status)
		}
		if diff := cmp.Diff(asJSON(c.want), asJSON(body)); diff != "" {
			t.Errorf("GET %s (-want +got):\n%s", c.url, diff)
		}
	}
}

// asJSON makes texts comparable whatever the order of their fields.
func asJSON(s string) any {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	return v
}

func TestReviewsVersions(t *testing.T) {
	for version, want := range map[string][]any{
		"v1": {nil, nil},
		"v2": {map[string]any{"stars": 5.0, "color": "black"}, map[string]any{"stars": 4.0, "color": "black"}},
		"v3": {map[string]any{"stars": 5.0, "color": "red"}, map[string]any{"stars": 4.0, "color": "red"}},
	} {
		asked := 0
		productpage, _ := bookinfo(t, version, func(r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/ratings") {
				asked++
			}
		})
		status, _, body := get(t, productpage+"/api/v1/products/0/reviews", nil)
		got, ok := asJSON(body).(map[string]any)
		if status != 200 || !ok {
			t.Fatalf("reviews %s: %d %s", version, status, body)
		}
		if got["id"] != "0" || got["podname"] != "reviews-"+version || got["clustername"] != "null" {
			t.Errorf("reviews %s says about itself %v", version, got)
		}
		var stars []any
		for _, r := range got["reviews"].([]any) {
			stars = append(stars, r.(map[string]any)["rating"])
		}
		if diff := cmp.Diff(want, stars); diff != "" {
			t.Errorf("reviews %s, ratings (-want +got):\n%s", version, diff)
		}
		if wantAsked := map[string]int{"v1": 0, "v2": 1, "v3": 1}[version]; asked != wantAsked {
			t.Errorf("reviews %s asked ratings %d times, want %d", version, asked, wantAsked)
		}
	}
}

func TestUnknownServices(t *testing.T) {
	for _, opts := range []service.Options{{Name: "carts"}, {}, {Name: "reviews", Version: "v4"}} {
		if _, err := service.New(opts); err == nil {
			t.Errorf("New(%+v) gave no error", opts)
		}
	}
}

func TestHeadersArePassedOn(t *testing.T) {
	passed := []string{
		"X-Request-Id", "Traceparent", "Tracestate", "Baggage", "B3",
		"X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags",
		"X-Ot-Span-Context", "X-Datadog-Trace-Id", "X-Cloud-Trace-Context", "Grpc-Trace-Bin", "Sw8",
		"End-User", "User-Agent", "Cookie", "Authorization", "Jwt",
	}
	header := http.Header{"X-Private": {"no"}, "Accept": {"no"}}
	for _, name := range passed {
		header.Set(name, "value-of-"+name)
	}
	seen := map[string]http.Header{}
	productpage, _ := bookinfo(t, "v3", func(r *http.Request) {
		seen[strings.Split(r.URL.Path, "/")[1]] = r.Header.Clone()
	})
	if status, _, _ := get(t, productpage+"/productpage", header); status != 200 {
		t.Fatalf("status %d", status)
	}
	for _, name := range []string{"details", "reviews", "ratings"} {
		for _, h := range passed {
			if got := seen[name].Get(h); got != "value-of-"+h {
				t.Errorf("%s got %s: %q", name, h, got)
			}
		}
		for _, h := range []string{"X-Private", "Accept"} {
			if got := seen[name].Get(h); got != "" {
				t.Errorf("%s got %s: %q, which is not for it", name, h, got)
			}
		}
	}
}

func TestLogin(t *testing.T) {
	var user string
	productpage, _ := bookinfo(t, "v1", func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/reviews") {
			user = r.Header.Get("end-user")
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+productpage+"/login",
		strings.NewReader(url.Values{"username": {"jason"}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, header, _ := do(t, req)
	if status != http.StatusFound || header.Get("Location") != "/productpage" {
		t.Fatalf("login: %d to %q", status, header.Get("Location"))
	}
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	_, _, body := get(t, productpage+"/productpage", http.Header{"Cookie": {cookie}})
	if user != "jason" {
		t.Errorf("reviews saw end-user %q, want jason", user)
	}
	if !strings.Contains(body, "jason (<a") {
		t.Errorf("the page does not greet jason:\n%s", body)
	}
}

func TestPage(t *testing.T) {
	productpage, _ := bookinfo(t, "v3", nil)
	status, _, body := get(t, productpage+"/productpage", nil)
	for _, want := range []string{"The Comedy of Errors", "William Shakespeare", `<span class="red">★★★★★</span>`, `<span class="red">★★★★</span>`, "served by reviews-v3"} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("status %d, and the page lacks %q:\n%s", status, want, body)
		}
	}
	if status, _, body := get(t, productpage+"/", nil); status != 200 || !strings.Contains(body, "/productpage") {
		t.Errorf("index: %d\n%s", status, body)
	}
}

func TestProductpageReportsFailures(t *testing.T) {
	calls := 0
	broken := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	productpage := serve(t, service.Options{Name: "productpage", Details: "127.0.0.1:1", Reviews: broken, Ratings: broken}, nil)
	for path, want := range map[string]struct {
		status, calls int
		what          string
	}{
		"/api/v1/products/0":         {500, 0, "details"},
		"/api/v1/products/0/reviews": {504, 2, "reviews"},
		"/api/v1/products/0/ratings": {504, 1, "ratings"},
	} {
		calls = 0
		status, _, body := get(t, productpage+path, nil)
		apology := map[string]any{"error": "Sorry, product " + want.what + " are currently unavailable for this book."}
		if status != want.status || calls != want.calls || !cmp.Equal(asJSON(body), any(apology)) {
			t.Errorf("%s: %d after %d calls, %s", path, status, calls, body)
		}
	}
	if status, _, body := get(t, productpage+"/productpage", nil); status != 200 || strings.Count(body, "Sorry, product") != 2 {
		t.Errorf("the page with broken services: %d\n%s", status, body)
	}

	reviews := serve(t, service.Options{Name: "reviews", Version: "v2", Ratings: broken}, nil)
	status, _, body := get(t, reviews+"/reviews/0", nil)
	if status != 200 || strings.Count(body, `"rating":{"error":"Ratings service is currently unavailable"}`) != 2 {
		t.Errorf("reviews without ratings: %d %s", status, body)
	}
}

func TestReviewsV3IsImpatient(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 2.5 s")
	}
	t.Parallel()
	release := make(chan struct{})
	slow := serveHandler(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release) })
	reviews := serve(t, service.Options{Name: "reviews", Version: "v3", Ratings: slow}, nil)
	begin := time.Now()
	status, _, body := get(t, reviews+"/reviews/0", nil)
	if took := time.Since(begin); status != 200 || !strings.Contains(body, "unavailable") || took < 2*time.Second || took > 4*time.Second {
		t.Errorf("after %s: %d %s", took, status, body)
	}
}

func TestFailFirst(t *testing.T) {
	ratings := serve(t, service.Options{Name: "ratings"}, nil)
	ask := func(id, first string) (int, string) {
		status, header, _ := get(t, ratings+"/ratings/0", http.Header{"X-Request-Id": {id}, "X-Fail-First": {first}})
		return status, header.Get("X-Attempt")
	}
	for i, c := range []struct {
		id, first string
		status    int
		attempt   string
	}{
		{"a", "2", 500, "1"}, {"b", "1", 500, "1"}, {"a", "2", 500, "2"}, {"b", "1", 200, "2"}, {"a", "2", 200, "3"},
		{"a", "2", 500, "1"}, // forgotten with its success
		{"c", "0", 200, "1"}, {"c", "nonsense", 200, ""},
	} {
		if status, attempt := ask(c.id, c.first); status != c.status || attempt != c.attempt {
			t.Errorf("request %d (%s, fail first %s): %d, attempt %q; want %d, %q", i, c.id, c.first, status, attempt, c.status, c.attempt)
		}
	}
	// However many are asked for, the failures of an id end.
	for range 100 {
		if status, _ := ask("d", "1000000"); status != 500 {
			t.Fatalf("status %d within the first 100 requests", status)
		}
	}
	if status, _ := ask("d", "1000000"); status != 200 {
		t.Errorf("status %d after 100 failures, want 200", status)
	}
}

func TestPostedRatings(t *testing.T) {
	ratings := serve(t, service.Options{Name: "ratings"}, nil)
	post := func(path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ratings+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		status, _, _ := do(t, req)
		return status
	}
	if got := post("/ratings/3", `{"Reviewer1":1}`); got != 200 {
		t.Errorf("posting: %d", got)
	}
	if got := post("/ratings/3", `{"Reviewer1":"many"}`); got != 400 {
		t.Errorf("posting nonsense: %d", got)
	}
	if got := post("/ratings/x", `{}`); got != 400 {
		t.Errorf("posting to no product: %d", got)
	}
	if _, _, body := get(t, ratings+"/ratings/3", nil); body != `{"id":3,"ratings":{"Reviewer1":1}}` {
		t.Errorf("after posting: %s", body)
	}
}

// TestUnhealthyFile creates and removes the file that makes a service report itself as unhealthy.
func TestUnhealthyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unhealthy")
	address := serve(t, service.Options{Name: "details", UnhealthyFile: file}, nil)
	expect := func(path string, want int) {
		t.Helper()
		if status, _, body := get(t, address+path, nil); status != want {
			t.Errorf("GET %s: %d %s, want %d", path, status, body, want)
		}
	}
	expect("/health", http.StatusOK)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("/health", http.StatusServiceUnavailable)
	expect("/details/0", http.StatusOK)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect("/health", http.StatusOK)
}
