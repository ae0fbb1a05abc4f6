package webhook

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// endless is a body without end. It counts the bytes that were read.
type endless struct {
	left, read int
}

func (e *endless) Read(b []byte) (int, error) {
	n := min(len(b), e.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range b[:n] {
		b[i] = 'x'
	}
	e.left, e.read = e.left-n, e.read+n
	return n, nil
}

// TestHugeBodies: at most 6 MiB of a body of 100 MiB are read, in each of 8 concurrent requests,
// and their memory is released.
func TestHugeBodies(t *testing.T) {
	h, _ := handler(t)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 8 {
		for _, path := range []string{"/inject", "/validate"} {
			body := &endless{left: 100 << 20}
			w := ask(h, path, io.MultiReader(strings.NewReader(`{"request":{"uid":"`), body))
			if w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
			}
			if body.read > 6<<20+64<<10 {
				t.Errorf("%s read %d bytes", path, body.read)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 16<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
}

// TestEvictedBody: a request whose memory another one needs while its body arrives is answered 503.
func TestEvictedBody(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	h := httptest.NewServer(s.reviewHandler(1000, nil, func(int) {}))
	defer h.Close()
	body, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	codes := make(chan int, 1)
	go func() {
		answer, err := h.Client().Do(r)
		if err != nil {
			t.Error(err)
			codes <- 0
			return
		}
		answer.Body.Close()
		codes <- answer.StatusCode
	}()
	serving.Until(t, patience, "the body is being read", func() bool {
		s.bodies.mu.Lock()
		defer s.bodies.mu.Unlock()
		return s.bodies.held > 0
	})
	other := s.bodies.reserve(func() {})
	defer other.close()
	if !other.grow(s.bodies.limit) {
		t.Fatal("no request was evicted")
	}
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("an evicted request is answered %d", code)
	}
}
