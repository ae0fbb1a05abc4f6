package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/consul"
)

// indexHeader is the index of an answer of Consul.
const indexHeader = "X-Consul-Index"

// front is a load balancer before the servers. It sends each request to the next server that accepts
// the connection, and can answer itself, as a broken front does.
type front struct {
	url     string
	targets []*url.URL
	next    atomic.Uint64

	mu     sync.Mutex
	fault  func(w http.ResponseWriter) // nil: requests are passed on
	edit   func(*http.Response)        // changes the answers of the servers, if not nil
	faulty int                         // answers that were affected since the last setFault or setEdit
	cut    context.CancelFunc          // ends the requests that run
	phase  context.Context
}

func newFront(t *testing.T, servers []*consul.Server) *front {
	t.Helper()
	f := &front{}
	for _, s := range servers {
		target, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		f.targets = append(f.targets, target)
	}
	f.phase, f.cut = context.WithCancel(t.Context())
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	proxy := &httputil.ReverseProxy{
		Transport:      balancer{f, transport},
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(f.targets[0]) },
		ModifyResponse: f.modify,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault, phase := f.serve()
		if fault != nil {
			fault(w)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(phase, cancel)()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() {
		f.set(t, nil, nil)
		server.Close()
		transport.CloseIdleConnections()
	})
	f.url = server.URL
	return f
}

// balancer sends requests to the targets of a front in turn.
type balancer struct {
	*front
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It tries the next target if one refuses the connection.
func (b balancer) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for range b.targets {
		r.URL.Host = b.targets[b.next.Add(1)%uint64(len(b.targets))].Host
		if resp, err = b.transport.RoundTrip(r); !errors.Is(err, syscall.ECONNREFUSED) {
			return resp, err
		}
	}
	return nil, err
}

// serve returns the fault of now, counted, and the context of requests that are passed on.
func (f *front) serve() (fault func(http.ResponseWriter), phase context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		f.faulty++
	}
	return f.fault, f.phase
}

func (f *front) modify(r *http.Response) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.edit != nil {
		f.edit(r)
		f.faulty++
	}
	return nil
}

// set replaces the fault and the edit of headers, and ends the requests that run.
func (f *front) set(t *testing.T, fault func(http.ResponseWriter), edit func(*http.Response)) {
	f.mu.Lock()
	f.fault, f.edit, f.faulty = fault, edit, 0
	f.mu.Unlock()
	f.interrupt(t)
}

// interrupt ends the requests that run, so that clients repeat blocking queries.
func (f *front) interrupt(t *testing.T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut()
	f.phase, f.cut = context.WithCancel(context.WithoutCancel(t.Context()))
}

// affected returns the number of answers that the current fault or edit has affected.
func (f *front) affected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faulty
}

// status returns a fault: each request is answered with this status and text.
func status(code int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { http.Error(w, text, code) }
}

// body returns an edit: each answer has this body and Consul's own headers, its index too.
func body(text string) func(*http.Response) {
	return func(r *http.Response) {
		r.Body.Close()
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	}
}

// emptyLists is an edit: each answer has an empty list of the type that its query wants.
func emptyLists(r *http.Response) {
	if strings.HasSuffix(r.Request.URL.Path, "/catalog/services") {
		body("{}")(r)
	} else {
		body("[]")(r)
	}
}

// oldIndex is an edit: indexes are those of servers that have just begun.
func oldIndex(r *http.Response) { r.Header.Set(indexHeader, "7") }

// cutOff is a fault: the connection ends within the answer.
func cutOff(w http.ResponseWriter) {
	w.Header().Set(indexHeader, "1000000")
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`[{"Node":{"ID":"`))
	panic(http.ErrAbortHandler)
}
