package kube

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

// roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBufferedBodies checks that a body is read as it arrives, as watches need it, and is closed.
func TestBufferedBodies(t *testing.T) {
	t.Parallel()
	body, server := io.Pipe()
	b := bufferedBodies{roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{Body: body}, nil })}
	response, err := b.RoundTrip(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		go func() { _, _ = server.Write([]byte(text)) }()
		got := make([]byte, 100)
		n, err := response.Body.Read(got)
		if err != nil || string(got[:n]) != text {
			t.Fatalf("read %q, %v, want %q before more arrives", got[:n], err, text)
		}
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is open: %v", err)
	}
}

// TestRequestsThatFail checks that the error of a request is returned.
func TestRequestsThatFail(t *testing.T) {
	t.Parallel()
	want := errors.New("refused")
	b := bufferedBodies{roundTripper(func(*http.Request) (*http.Response, error) { return nil, want })}
	if _, err := b.RoundTrip(nil); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}
