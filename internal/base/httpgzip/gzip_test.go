package httpgzip_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/httpgzip"
)

func TestIsAccepted(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "br": false, "gzip": true, "deflate, gzip": true, "br;q=1.0, GZIP; q=0.5": true, "gzip;q=0": false,
		"gzip; q=0.000, br": false, "xgzip": false,
	} {
		if got := httpgzip.IsAccepted(&http.Request{Header: http.Header{"Accept-Encoding": {header}}}); got != want {
			t.Errorf("%q: %t, want %t", header, got, want)
		}
	}
}

func TestCompress(t *testing.T) {
	text := strings.Repeat("proxy ", 10_000)
	zipped := httpgzip.Compress([]byte(text))
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != text || len(zipped) > 1000 {
		t.Errorf("%d bytes become %d, and again %d: %v", len(text), len(zipped), len(got), err)
	}
}
