package kube

import (
	"bufio"
	"io"
	"net/http"
)

// bodyBuffer is the size of the buffer of a response. It is the most that a watch of many objects
// receives between two flow-control frames.
const bodyBuffer = 64 << 10

// bufferedBodies sends requests by another RoundTripper and reads the responses in large pieces.
// client-go reads a watch object by object, and Go's HTTP/2 client sends flow-control frames, which
// are encrypted writes to the connection, for each piece that is read.
type bufferedBodies struct{ http.RoundTripper }

// RoundTrip sends a request and returns the response, with its body buffered.
func (b bufferedBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = bufferedBody{bufio.NewReaderSize(response.Body, bodyBuffer), response.Body}
	return response, nil
}

// WrappedRoundTripper returns the RoundTripper that sends the requests, for client-go.
func (b bufferedBodies) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// bufferedBody is a body that is read through a buffer.
type bufferedBody struct {
	io.Reader
	io.Closer
}
