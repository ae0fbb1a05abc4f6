package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// handler serves both webhooks without TLS and without an API server.
func handler(t testing.TB) (http.Handler, *obs.Metrics) {
	t.Helper()
	m := obs.NewMetrics()
	i := &Injector{
		Mesh: func() *meshconfig.MeshConfig { return mesh.DefaultMeshConfig() },
		Log:  slog.New(slog.DiscardHandler),
	}
	i.Configure(builtin(t))
	s := New(
		Options{
			Injector:  i,
			Validator: &Validator{Log: slog.New(slog.DiscardHandler)},
			Metrics:   m.Webhooks,
			Log:       slog.New(slog.DiscardHandler),
		},
	)
	return s.Handler(), m
}

func ask(h http.Handler, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func review(object string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"ns","object":` + object + `}}`
}

// hostile are bodies that would exhaust memory or time.
func hostile() map[string]string {
	const many = 1 << 20
	pod := func(annotations, containers string) string {
		return review(
			`{"metadata":{"name":"p","annotations":{` + annotations + `}},"spec":{"containers":[` + containers + `]}}`,
		)
	}
	config := func(yaml string) string {
		b, _ := json.Marshal(yaml) // a string
		return pod(`"proxy.istio.io/config":`+string(b), `{"name":"c"}`)
	}
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		aliases := slices.Repeat([]string{fmt.Sprintf("*a%d", i-1)}, 9)
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i, strings.Join(aliases, ","))
	}
	return map[string]string{
		"nothing":        "",
		"no JSON":        "hello",
		"null":           "null",
		"a list":         "[]",
		"no request":     "{}",
		"a null request": `{"request":null}`,
		"a null object":  review("null"),
		"no object":      `{"request":{"uid":"u","operation":"CREATE"}}`,
		"a deep object": review(
			strings.Repeat(`{"a":`, 1_000_000) + "1" + strings.Repeat("}", 1_000_000),
		), // 6.0 MB: it is read
		"a deep list":                review(strings.Repeat(`[`, many) + strings.Repeat("]", many)),
		"a huge body":                review(`"` + strings.Repeat("x", 8<<20) + `"`),
		"many small containers":      pod("", strings.Repeat("{},", many)+"{}"),
		"many null containers":       pod("", strings.Repeat("null,", many)+"null"),
		"many containers with names": pod("", strings.Repeat(`{"name":"c"},`, 5000)+"{}"),
		"huge annotations":           pod(`"a":"`+strings.Repeat("x", 5<<20)+`"`, `{"name":"c"}`),
		"YAML of aliases":            config(bomb),
		"deep YAML":                  config(strings.Repeat("[", 100_000)),
		"YAML of many maps":          config("proxyMetadata: {" + strings.Repeat("a: {", 30_000)),
		"overrides of many containers": pod(
			`"proxy.istio.io/overrides":"{\"containers\":[`+strings.Repeat("{},", 40_000)+`{}]}"`,
			`{"name":"c"}`,
		),
		"volumes of nothing": pod(
			`"sidecar.istio.io/userVolume":"null","sidecar.istio.io/userVolumeMount":"[]"`,
			`{"name":"c"}`,
		),
		"a status of something else": pod(`"sidecar.istio.io/status":"{\"containers\":[1,{}]}"`, `{"name":"c"}`),
		"no containers":              review(`{"metadata":{}}`),
		"null metadata":              review(`{"metadata":null,"spec":"x"}`),
		"wrong types":                review(`{"metadata":{"annotations":[]},"spec":"x"}`),
	}
}

// TestHostileBodies sends bodies that no API server sends. Each gets an error response, none uses
// much memory, and a valid request succeeds afterwards.
func TestHostileBodies(t *testing.T) {
	scorecard.Check(t, 41, scorecard.Size("hostile bodies", len(hostile())))
	h, _ := handler(t)
	good := review(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`)
	const limit = 150 << 20
	for name, body := range hostile() {
		for _, path := range []string{"/inject", "/validate", "/inject/cluster/a/b", "/inject/:ENV:a=b:ENV:=", "/inject///"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := ask(h, path, strings.NewReader(body))
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > limit {
				t.Errorf("%s at %s used %d MiB", name, path, taken>>20)
			}
			if w.Code == http.StatusInternalServerError {
				t.Errorf("%s at %s: %d %.300s", name, path, w.Code, w.Body)
			}
			if allowed(w) && strings.HasPrefix(path, "/inject") && name != "no containers" {
				if strings.Contains(name, "volumes of nothing") || strings.Contains(name, "a status of") {
					continue // a pod that may be
				}
				t.Errorf("%s at %s was accepted, want a refusal", name, path)
			}
		}
	}
	if w := ask(h, "/inject", strings.NewReader(good)); !allowed(w) || !strings.Contains(w.Body.String(), `"patch":`) {
		t.Errorf("a good one: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/inject", "/validate"} {
		testBodyLimit(t, h, path, good)
	}
}

// testBodyLimit: a review of 6 MiB is accepted, one more byte is refused, and of an endless body
// little more is read.
func testBodyLimit(t *testing.T, h http.Handler, path, good string) {
	t.Helper()
	const most = 6 << 20
	if w := ask(h, path, strings.NewReader(good+strings.Repeat(" ", most-len(good)))); w.Code != http.StatusOK {
		t.Errorf("%s: a body of %d bytes: %d %.200s", path, most, w.Code, w.Body)
	}
	if w := ask(
		h,
		path,
		strings.NewReader(good+strings.Repeat(" ", most-len(good)+1)),
	); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%s: a body of %d bytes: %d %.200s", path, most+1, w.Code, w.Body)
	}
	endless := &spaces{}
	if w := ask(h, path, endless); w.Code != http.StatusRequestEntityTooLarge || endless.read > most+1<<20 {
		t.Errorf("%s: of a body without end %d MiB were read: %d %.200s", path, endless.read>>20, w.Code, w.Body)
	}
}

// spaces is a body of spaces that ends after 1 GiB, for the test to end.
type spaces struct{ read int }

func (s *spaces) Read(p []byte) (int, error) {
	if s.read > 1<<30 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = ' '
	}
	s.read += len(p)
	return len(p), nil
}

func allowed(w *httptest.ResponseRecorder) bool {
	out := admissionv1.AdmissionReview{}
	return json.Unmarshal(w.Body.Bytes(), &out) == nil && out.Response != nil && out.Response.Allowed
}

// TestHugeExpressions: a regular expression costs nothing before it is known to be too long, wherever it may be.
func TestHugeExpressions(t *testing.T) {
	h, _ := handler(t)
	expression := strings.Repeat("(a|b)*", 170_000)
	for kind, spec := range map[string]string{
		"VirtualService":  `{"hosts":["a"],"http":[{"match":[{"uri":{"regex":"` + expression + `"}}],"route":[{"destination":{"host":"a"}}]}]}`,
		"EnvoyFilter":     `{"configPatches":[{"applyTo":"CLUSTER","match":{"proxy":{"proxyVersion":"` + expression + `"}},"patch":{"operation":"MERGE","value":{}}}]}`,
		"DestinationRule": `{"host":"a","trafficPolicy":{"loadBalancer":{"consistentHash":{"httpHeaderName":"` + expression + `"}}}}`,
	} {
		body := review(
			`{"apiVersion":"networking.istio.io/v1alpha3","kind":"` + kind + `","metadata":{"name":"x"},"spec":` + spec + `}`,
		)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := ask(h, "/validate", strings.NewReader(body))
		runtime.ReadMemStats(&after)
		// The EnvoyFilter matches no proxy, with a warning, and the DestinationRule has no expression.
		if allowed(w) && kind == "VirtualService" || w.Code != http.StatusOK {
			t.Errorf("%s: %d %.200s", kind, w.Code, w.Body)
		}
		// The body is copied some times on its way through JSON; a compiled expression of its length takes hundreds of MB.
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 100*uint64(len(body)) {
			t.Errorf("%s used %d MiB", kind, taken>>20)
		}
	}
}

// TestReviewVersions: the response has the version of the request.
func TestReviewVersions(t *testing.T) {
	h, _ := handler(t)
	for _, version := range []string{"v1", "v1beta1"} {
		body := strings.Replace(
			review(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`),
			"admission.k8s.io/v1",
			"admission.k8s.io/"+version,
			1,
		)
		w := ask(h, "/inject", strings.NewReader(body))
		out := admissionv1.AdmissionReview{}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatal(err, w.Body)
		}
		if want := (schema.GroupVersion{Group: "admission.k8s.io", Version: version}).String(); out.APIVersion != want ||
			out.Kind != "AdmissionReview" ||
			out.Response.UID != "u" {
			t.Errorf("answered %s %s, uid %q", out.APIVersion, out.Kind, out.Response.UID)
		}
	}
}

// TestMalformedRequests: requests that are not a POST of JSON are refused.
func TestMalformedRequests(t *testing.T) {
	h, m := handler(t)
	for _, c := range []struct {
		method, contentType string
		want                int
	}{{http.MethodGet, "application/json", http.StatusMethodNotAllowed}, {http.MethodPost, "text/plain", http.StatusUnsupportedMediaType},
		{http.MethodPost, "", http.StatusUnsupportedMediaType}} {
		r := httptest.NewRequest(c.method, "/validate", strings.NewReader("{}"))
		r.Header.Set("Content-Type", c.contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %q: %d, want %d", c.method, c.contentType, w.Code, c.want)
		}
	}
	if families, err := m.Registry.Gather(); err != nil ||
		!bytes.Contains(fmt.Append(nil, families), []byte("galley_validation_http_error")) {
		t.Error("nothing was counted", err)
	}
}

// TestBodiesAreBoundedTogether: clients that never finish their requests hold a bounded number of
// bytes, and further requests get 503.
func TestBodiesAreBoundedTogether(t *testing.T) {
	m := obs.NewMetrics()
	i := &Injector{
		Mesh: func() *meshconfig.MeshConfig { return mesh.DefaultMeshConfig() },
		Log:  slog.New(slog.DiscardHandler),
	}
	i.Configure(builtin(t))
	s := New(Options{Injector: i, Metrics: m.Webhooks, Log: slog.New(slog.DiscardHandler)})
	full := s.bodies.reserve(func() {})
	if !full.grow(64<<20) || !full.markStarted() { // a request that is being worked on is not cancelled
		t.Fatal("memory is reserved before the test")
	}
	body := review(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`)
	if w := ask(s.Handler(), "/inject", strings.NewReader(body)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("with the budget used up: %d %s", w.Code, w.Body)
	}
	full.close()
	for range 3 { // reserved memory was released
		if w := ask(s.Handler(), "/inject", strings.NewReader(body)); !allowed(w) {
			t.Errorf("with room: %d %s", w.Code, w.Body)
		}
	}
	if s.bodies.held != 0 || s.bodies.pending.Len() != 0 {
		t.Errorf("%d bytes of %d requests were not given back", s.bodies.held, s.bodies.pending.Len())
	}
}

// TestDefectsAreErrors: a panic is an internal error, so the webhook's failurePolicy applies.
func TestDefectsAreErrors(t *testing.T) {
	m := obs.NewMetrics()
	i := &Injector{Mesh: func() *meshconfig.MeshConfig { panic("a defect") }, Log: slog.New(slog.DiscardHandler)}
	i.Configure(builtin(t))
	s := New(Options{Injector: i, Metrics: m.Webhooks, Log: slog.New(slog.DiscardHandler)})
	w := ask(
		s.Handler(),
		"/inject",
		strings.NewReader(review(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`)),
	)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// FuzzReviews sends anything to both webhooks.
func FuzzReviews(f *testing.F) {
	for _, body := range hostile() {
		if len(body) < 10_000 {
			f.Add(body)
		}
	}
	f.Add(
		review(
			`{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{"name":"x"},"spec":{"hosts":["a"]}}`,
		),
	)
	h, _ := handler(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/inject", "/validate"} {
			if w := ask(h, path, strings.NewReader(body)); w.Code == http.StatusInternalServerError {
				t.Errorf("%s: %s", path, w.Body)
			}
		}
	})
}
