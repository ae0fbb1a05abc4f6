package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWatch prints a list when it has changed, and not when it has not.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		switch {
		case reads <= 3:
			fmt.Fprint(w, `{"clusters":[{"id":"one"}]}`)
		case reads == 4:
			http.Error(w, "restarting", http.StatusServiceUnavailable)
		case reads == 5:
			fmt.Fprint(w, `{"clusters":[{"id":"two"}]}`)
		default:
			cancel()
		}
	}))
	defer s.Close()
	var out strings.Builder
	c := New()
	c.SetOut(&out)
	c.SetArgs([]string{"remote-clusters", "--server", strings.TrimPrefix(s.URL, "http://"), "-o", "name", "--watch", "--watch-interval", "1ms"})
	if err := c.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 6 || lines[0] != "one" || !strings.Contains(lines[2], "restarting") || lines[4] != "two" {
		t.Errorf("the output is %q", lines)
	}
}
