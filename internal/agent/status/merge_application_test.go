package status

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
)

// openMetricsApp serves OpenMetrics whatever is requested.
func openMetricsApp(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", openMetrics1)
		_, _ = io.WriteString(w, body)
	}
}

// negotiatingApp serves OpenMetrics if the request lists it first, otherwise the text format.
func negotiatingApp(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Accept"), "application/openmetrics-text") {
		openMetricsApp("negotiated_total 1 # {trace_id=\"a\"} 1\n# EOF\n")(w, r)
		return
	}
	w.Header().Set("Content-Type", string(textFormat))
	_, _ = io.WriteString(w, "negotiated_total 1\n")
}

// scrapeAs returns the merged output for a scraper with this Accept header, and its content type.
func scrapeAs(t *testing.T, o Options, accept string) (text, contentType string) {
	t.Helper()
	m := newMerger(o)
	t.Cleanup(m.client.CloseIdleConnections)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
	r.Header.Set("Accept", accept)
	m.ServeHTTP(w, r)
	return w.Body.String(), w.Header().Get("Content-Type")
}

// invalidOpenMetrics returns the first line that Prometheus's parser of OpenMetrics rejects, or "".
// Nothing may follow the mark of the end.
func invalidOpenMetrics(text string) string {
	body, ok := strings.CutSuffix(text, "\n# EOF\n")
	if !ok {
		return "no mark of the end"
	}
	for line := range strings.SplitSeq(body, "\n") {
		isMetadata := strings.HasPrefix(line, "# TYPE ") || strings.HasPrefix(line, "# HELP ")
		if line == "" || strings.HasPrefix(line, "#") && !isMetadata || strings.HasSuffix(line, " untyped") {
			return fmt.Sprintf("%q", line)
		}
	}
	return ""
}

// TestMergeOpenMetrics tests that the output is OpenMetrics if the application's metrics are, with
// one mark of the end, and text otherwise.
func TestMergeOpenMetrics(t *testing.T) {
	const prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	only := openMetricsApp("only_total 1 # {trace_id=\"a\"} 1\n# EOF\n")
	text := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text_total 1\n") }
	tests := []struct {
		name, accept string
		apps         []http.HandlerFunc
		openMetrics  bool
		want         []string
		failures     int
	}{
		{"OpenMetrics only", prometheus, []http.HandlerFunc{only}, true, []string{"only_total 1 # {"}, 0},
		{"OpenMetrics only, and a scraper of text", "text/plain", []http.HandlerFunc{only}, true, []string{"only_total 1 # {"}, 0},
		{"both formats", prometheus, []http.HandlerFunc{negotiatingApp}, true, []string{"negotiated_total 1 # {"}, 0},
		{"both formats, and a scraper of text", "text/plain;version=0.0.4", []http.HandlerFunc{negotiatingApp}, false, []string{"negotiated_total 1\n"}, 0},
		{"text", prometheus, []http.HandlerFunc{text}, false, []string{"text_total 1\n"}, 0},
		{"no application", prometheus, nil, false, nil, 0},
		{"two with OpenMetrics", prometheus, []http.HandlerFunc{only, negotiatingApp}, true, []string{"only_total 1 # {", "negotiated_total 1 # {"}, 0},
		{"text and both formats", prometheus, []http.HandlerFunc{text, negotiatingApp}, false, []string{"text_total 1\n", "negotiated_total 1\n"}, 0},
		{"text and OpenMetrics only", prometheus, []http.HandlerFunc{only, text}, false, []string{"text_total 1\n"}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var apps []environment.Application
			for _, h := range test.apps {
				apps = slices.Concat(apps, application(t, h))
			}
			envoy := &fakeEnvoy{metrics: envoyMetrics + "\n# a comment\n# TYPE envoy_x untyped\nenvoy_x 1\n"}
			o := options(envoy, func(o *Options) { o.Applications = apps })
			got, contentType := scrapeAs(t, o, test.accept)
			want := string(textFormat)
			if test.openMetrics {
				want = openMetrics1
			}
			if contentType != want {
				t.Errorf("content type %q, want %q", contentType, want)
			}
			for _, want := range append(test.want, "envoy_cluster_upstream_rq{", "envoy_x 1\n", "istio_agent_scrapes_total ") {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in\n%s", want, got)
				}
			}
			switch ends := strings.Count(got, "# EOF"); {
			case test.openMetrics && (ends != 1 || invalidOpenMetrics(got) != ""):
				t.Errorf("%d marks of the end, invalid line %s in\n%s", ends, invalidOpenMetrics(got), got)
			case !test.openMetrics && (ends != 0 || strings.Contains(got, "trace_id")):
				t.Errorf("OpenMetrics in the text format:\n%s", got)
			}
			if n := failures(t, o.Metrics)["application"]; n != test.failures {
				t.Errorf("%d failures of the application, want %d", n, test.failures)
			}
		})
	}
}

// TestAcceptableFormats tests which formats the application is asked for.
func TestAcceptableFormats(t *testing.T) {
	const text, om0, om1 = string(textFormat), "application/openmetrics-text; version=0.0.1; charset=utf-8", openMetrics1
	for accept, want := range map[string]string{
		"":                    text,
		"no type;;":           text,
		"*/*":                 text,
		"text/plain":          text,
		"application/json":    text,
		"application/*;q=0.5": om0 + "; q=0.5",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," +
			"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
			"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": om1 + "; q=0.6, " + om0 + "; q=0.5, " + text + "; q=0.4",
	} {
		if got := acceptableFormats(accept); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

// TestWithoutEnd tests that only a line "# EOF" at the end is removed.
func TestWithoutEnd(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a 1\n": "a 1\n", "a 1": "a 1", "# EOF": "", "# EOF\n": "", "a 1\n# EOF": "a 1\n", "a 1\r\n# EOF\r\n \n": "a 1\r\n",
		"a 1 # EOF": "a 1 # EOF", "# EOF\na 1\n": "# EOF\na 1\n",
	} {
		if got := string(withoutEnd([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
