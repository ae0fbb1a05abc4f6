package command

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowServer responds after a time.
type slowServer time.Duration

func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Duration(s)):
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("dump")), Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestRequestTimeout tests that a request may take a minute, as in Istio, and no longer.
func TestRequestTimeout(t *testing.T) {
	restore := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = restore })
	for _, test := range []struct {
		server slowServer
		want   error
	}{
		{slowServer(59 * time.Second), nil},
		{slowServer(61 * time.Second), context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			http.DefaultTransport = test.server
			address := "localhost:15000"
			c := Request("", &address)
			c.SetArgs([]string{"GET", "config_dump"})
			c.SilenceErrors, c.SilenceUsage = true, true
			var out strings.Builder
			c.SetOut(&out)
			err := c.ExecuteContext(t.Context())
			if !errors.Is(err, test.want) || test.want == nil && out.String() != "dump" {
				t.Errorf("after %v: %q, %v, want %v", time.Duration(test.server), out.String(), err, test.want)
			}
		})
	}
}
