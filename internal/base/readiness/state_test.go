package readiness

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// source is a source that does not know why it is not in sync, and explained one that does.
type source string

func (s source) Name() string { return string(s) }

type explained struct{ source }

func (explained) Waiting() string { return "no Pods yet" }

// TestReadiness follows a control plane from its start to its stop.
func TestReadiness(t *testing.T) {
	s := New()
	check := func(when string, code int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		if w.Code != code || w.Body.String() != body {
			t.Errorf("%s: %d %q, want %d %q", when, w.Code, w.Body.String(), code, body)
		}
		if s.IsReady() != (code == 200) {
			t.Errorf("%s: IsReady returns %t", when, s.IsReady())
		}
	}
	isSynced := func() bool {
		select {
		case <-s.Synced():
			return true
		default:
			return false
		}
	}
	check("at the start", 503, "not ready: starting\n")
	s.Explain("files", func() string { return "a.yaml is being read" })
	s.ExplainSource(source("other"))
	s.ExplainSource(explained{"kubernetes"})
	s.Hold("webhooks", "no certificate")
	s.SetWaiting([]string{"kubernetes", "other"})
	check("while feeds sync", 503, "not ready: waiting for kubernetes, other\nkubernetes: no Pods yet\n")
	if isSynced() {
		t.Error("synced while feeds are not")
	}
	s.SetWaiting(nil)
	check("before the port is open", 503, "not ready: the xDS port is not open yet\n")
	if !isSynced() {
		t.Error("not synced although all feeds are")
	}
	s.SetServing("")
	check("with a hold", 503, "not ready: webhooks: no certificate\n")
	s.Release("webhooks")
	check("ready", 200, "")
	s.SetServing("stopping")
	check("while it stops", 503, "not ready: stopping\n")
}
