package faultproxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Answer answers a request itself and returns true, or returns false to forward it, perhaps with
// another path.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// Front is a proxy of an API server.
type Front struct {
	server  *httptest.Server
	mu      sync.Mutex
	answer  Answer
	watches []*stream
	asked   []string
}

// stream is a forwarded watch.
type stream struct {
	path string
	from io.ReadCloser
	mu   sync.Mutex // held while something is written
	to   *io.PipeWriter
}

// New opens a front on loopback until the test ends. It calls the API server with the credentials
// of the given client.
func New(t testing.TB, c *rest.Config) *Front {
	t.Helper()
	transport, err := rest.TransportFor(c)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(c.Host)
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" && r.StatusCode == http.StatusOK {
				f.followWatch(r)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		answer := f.answer
		f.asked = append(f.asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
		f.mu.Unlock()
		r.Header.Set("Accept", "application/json") // a line for each event, which others can be put between
		if answer == nil || !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// Config returns the configuration of a client of the front. The client receives JSON.
func (f *Front) Config() *rest.Config {
	return &rest.Config{Host: f.server.URL, QPS: 1000, Burst: 1000}
}

// Set sets the function that answers requests from now on; nil: the API server answers.
func (f *Front) Set(answer Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// followWatch forwards a watch's bytes, so that others can be inserted.
func (f *Front) followWatch(r *http.Response) {
	in, out := io.Pipe()
	s := &stream{path: r.Request.URL.Path, from: r.Body, to: out}
	go func() {
		lines := bufio.NewReader(s.from)
		for {
			line, err := lines.ReadBytes('\n') // one event
			if s.writeChunk(line) != nil || err != nil {
				_ = out.CloseWithError(err)
				return
			}
		}
	}()
	r.Body = struct {
		io.Reader
		io.Closer
	}{in, closers{in, r.Body}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches = append(f.watches, s)
}

func (s *stream) writeChunk(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.to.Write(b)
	return err
}

type closers [2]io.Closer

func (c closers) Close() error {
	_ = c[0].Close()
	return c[1].Close()
}

// SendLine puts an event, a line of JSON, into all watches of a resource ("services"). It returns their
// number.
func (f *Front) SendLine(resource, line string) int {
	f.mu.Lock()
	watches := append([]*stream(nil), f.watches...)
	f.mu.Unlock()
	n := 0
	for _, s := range watches {
		if strings.HasSuffix(s.path, "/"+resource) {
			if s.writeChunk([]byte(line+"\n")) == nil {
				n++
			}
		}
	}
	return n
}

// CutConnections ends all connections as they are.
func (f *Front) CutConnections() { f.server.CloseClientConnections() }

// CountRequests returns the number of requests for paths with a suffix and a text in their query.
func (f *Front) CountRequests(path, query string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.asked {
		if p, q, _ := strings.Cut(a, "?"); strings.HasSuffix(p, path) && strings.Contains(q, query) {
			n++
		}
	}
	return n
}

// Refuse answers everything with a status of the API server.
func Refuse(code int) Answer {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		reason := map[int]string{
			403: "Forbidden",
			410: "Expired",
			429: "TooManyRequests",
			500: "InternalError",
			503: "ServiceUnavailable",
		}[code]
		_, _ = fmt.Fprintf(w,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the test says %d","reason":%q,"code":%d}`,
			code, reason, code)
		return true
	}
}
