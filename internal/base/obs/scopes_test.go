package obs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func ask(h http.Handler, method, host, path, body string) (int, string) {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestControlZ tests the requests of istioctl admin log.
func TestControlZ(t *testing.T) {
	logs, err := NewLogs(LogOptions{Levels: "model:none", Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	logs.Scope("ads")
	logs.Scope("model")
	h := logs.ControlZ()
	for _, step := range []struct {
		method, host, path, body string
		status                   int
		want                     string
	}{
		{"GET", "localhost:9876", "/scopej/", "", 200, `[{"name":"ads","description":"Connections`},
		{"GET", "127.0.0.1:9876", "/scopej", "", 200, `"output_level":"none"`},
		{"GET", "[::1]:9876", "/scopej/ads", "", 200, `"output_level":"info","stack_trace_level":"none","log_callers":false}`},
		{"GET", "[::1]", "/scopej/ads", "", 200, `"output_level":"info"`},
		{"GET", "localhost", "/scopej/nobody", "", 400, "unknown scope name: nobody"},
		{"PUT", "localhost:9876", "/scopej/ads", `{"name":"ads","output_level":"debug"}`, 202, ""},
		{"GET", "localhost:9876", "/scopej/ads", "", 200, `"output_level":"debug"`},
		{"GET", "localhost:9876", "/scopej/model", "", 200, `"output_level":"none"`},
		{"PUT", "localhost:9876", "/scopej/ads", `{"output_level":"loud"}`, 400, "loud"},
		{"PUT", "localhost:9876", "/scopej/nobody", `{"output_level":"info"}`, 400, "nobody"},
		{"PUT", "localhost:9876", "/scopej/ads", `no JSON`, 400, "unable to decode"},
		{"PUT", "evil.example.com", "/scopej/ads", `{"output_level":"none"}`, 403, ""},
		{"DELETE", "localhost:9876", "/scopej/ads", "", 405, ""},
	} {
		if status, body := ask(h, step.method, step.host, step.path, step.body); status != step.status || !strings.Contains(body, step.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", step.method, step.host, step.path, status, body, step.status, step.want)
		}
	}
}
