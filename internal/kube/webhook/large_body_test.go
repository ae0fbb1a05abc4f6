package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// TestLargeReviewsDoNotUseAllWorkers keeps as many large reviews open as there are workers, and
// requires that a small review is answered meanwhile.
func TestLargeReviewsDoNotUseAllWorkers(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	release, started := make(chan struct{}), make(chan struct{}, 64)
	h := s.reviewHandler(1000, func(
		_ context.Context, _ string, r *admissionv1.AdmissionRequest,
	) (*admissionv1.AdmissionResponse, error) {
		if r.Name == "large" {
			started <- struct{}{}
			<-release
		}
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}, func(int) {})
	review := func(name, padding string) int {
		body := `{"request":{"uid":"1","name":"` + name + `","namespace":"` + padding + `"}}`
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if code := review("large", strings.Repeat("x", largeBodyBytes)); code != http.StatusOK {
				t.Errorf("a large review is answered %d", code)
			}
		})
	}
	<-started
	answered := make(chan int, 1)
	go func() { answered <- review("small", "") }()
	select {
	case code := <-answered:
		if code != http.StatusOK {
			t.Errorf("a small review is answered %d", code)
		}
	case <-time.After(3 * time.Second):
		t.Error("a small review is not answered while large ones last")
	}
	if n := len(started); n > 0 {
		t.Errorf("%d more large reviews run at a time", n)
	}
	close(release)
	all.Wait()
}
