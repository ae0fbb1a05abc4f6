package webhook

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
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
