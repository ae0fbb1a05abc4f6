package serving

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// failing is a test that may fail without failing the one that is about it.
type failing struct {
	testing.TB
	said string
}

var errOver = errors.New("over")

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(errOver)
}

// Errorf records the message. The caller continues.
func (f *failing) Errorf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

// fails returns the message of a test that fails, "" if it does not fail.
func fails(t *testing.T, run func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(errOver) {
				panic(r)
			}
		}()
		run(f)
	}()
	return f.said
}

func TestEventuallyReportsTheLastError(t *testing.T) {
	asked := 0
	said := fails(t, func(t testing.TB) {
		Eventually(t, 10*time.Millisecond, "a thing", func() error { asked++; return fmt.Errorf("error %d", asked) })
	})
	if want := fmt.Sprintf("a thing: not within 10ms: error %d", asked); said != want || asked < 2 {
		t.Errorf("message = %q, want %q", said, want)
	}
	if said := fails(t, func(t testing.TB) { Until(t, 0, "a thing", func() bool { return false }) }); !strings.HasPrefix(said, "a thing: ") {
		t.Errorf("message = %q", said)
	}
	left := 3
	if said := fails(t, func(t testing.TB) { Until(t, time.Minute, "a thing", func() bool { left--; return left == 0 }) }); said != "" || left != 0 {
		t.Errorf("message = %q, with %d attempts left", said, left)
	}
}

func TestFreePortsAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for _, port := range FreePorts(t, 200) {
		if seen[port] {
			t.Fatalf("port %d was returned twice", port)
		}
		seen[port] = true
	}
}

func TestReservedPortIsNotReservedAgain(t *testing.T) {
	port := FreePort(t)
	if ok, err := reserve(port); ok || err != nil {
		t.Errorf("port %d is reserved again: %t, %v", port, ok, err)
	}
}

func TestPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "the text")
	}))
	defer server.Close()
	if text, err := Page(server.URL + "/"); text != "the text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Page(server.URL + "/busy?a=b"); err == nil || err.Error() != "/busy?a=b: 503 Service Unavailable: the text" {
		t.Errorf("error %v", err)
	}
}

// TestGroup shows that a part which fails ends alone, fails the test, and that Wait returns.
func TestGroup(t *testing.T) {
	others := 0
	said := fails(t, func(t testing.TB) {
		g := NewGroup(t)
		g.Go(func(t testing.TB) { t.Fatalf("part %d", 1); others++ })
		g.Wait()
		others += 10
	})
	if said != "part 1" || others != 10 {
		t.Errorf("message = %q, others %d", said, others)
	}
}
