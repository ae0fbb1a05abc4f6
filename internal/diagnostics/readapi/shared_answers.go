package readapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/httpgzip"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

const (
	// minSharedCost is the CPU time of an answer below which it is not kept: lists of small meshes are
	// made for each request.
	minSharedCost = 2 * time.Millisecond
	// sharedShare times the CPU time of making an answer is how long it is kept, so that it costs at
	// most 0.5 % of a core.
	sharedShare = 200
	// maxSharedTime is the longest time for which an answer is kept. Pages that show a kept answer
	// read it again after that.
	maxSharedTime = 5 * time.Second
	// maxSharedBytes limits the compressed size of all answers that are kept.
	maxSharedBytes = 8 << 20
	// minCompressed is the smallest answer that is compressed.
	minCompressed = 2 << 10
)

// freshParameter is the name of Freshness.Fresh in queries.
const freshParameter = "fresh"

// Freshness is the part of a request that refuses an answer of the last seconds.
type Freshness struct {
	Fresh bool `query:"fresh" doc:"Computed for this request. Otherwise, and for callers of one namespace, it may be one of the last seconds."`
}

// isFresh reports whether the answer to r must be computed for it. Callers with a namespace cannot
// request that, because lists of a large mesh are expensive.
func isFresh(r *http.Request, caller debug.Caller) bool {
	return caller.CanRead("") && r.URL.Query().Get(freshParameter) == "true"
}

// query returns the parameter as another replica's API expects it. It is empty unless Fresh is set.
func (f Freshness) query() url.Values {
	if !f.Fresh {
		return url.Values{}
	}
	return url.Values{freshParameter: {"true"}}
}

// isList reports whether the path is that of a list that grows with the mesh, and that all clients of an
// audience read alike.
func isList(path string) bool {
	switch strings.TrimPrefix(path, Prefix) {
	case "/proxies", "/proxy-versions", "/problems", "/objects", "/services", "/topology":
		return true
	default:
		return false
	}
}

// ServeHTTP serves all paths below Prefix, and answers 404 to others. It compresses lists, and
// keeps expensive ones for sharedShare times the CPU time of making them, at most maxSharedTime. An
// answer that takes 25 ms costs 0.5 % of a core, however many clients read it. A list that must be
// fresh is made for its request (isFresh).
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !isList(r.URL.Path) {
		a.mux.ServeHTTP(w, r)
		return
	}
	caller, refused := a.Access.CallerOf(r)
	caller, admitted := narrowCaller(r, caller)
	if refused != 0 || !admitted || isFresh(r, caller) {
		a.mux.ServeHTTP(w, r) // which describes an error
		return
	}
	// The answer is for all clients of the audience, also after this one has gone.
	ctx := context.WithValue(context.WithoutCancel(r.Context()), callerKey{}, caller)
	x := newAudience(caller, r.Header.Get("Authorization"), r.Header.Get("Accept")+" "+r.URL.RequestURI())
	answer, age := a.answers.entryFor(x).get(a, r.WithContext(ctx))
	if age > 0 {
		w.Header().Set("Age", strconv.Itoa(int(age.Seconds())))
	}
	answer.write(w, httpgzip.IsAccepted(r))
}

// formatAge returns an age in whole seconds, rounded up, and "" for 0.
func formatAge(age time.Duration) string {
	if age == 0 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(age.Seconds())))
}

// answerCache keeps answers by audience and request.
type answerCache struct {
	mu   sync.Mutex
	kept map[audience[string]]*sharedAnswer
}

// sharedAnswer keeps the answer to one request of one audience. Its zero value has none.
type sharedAnswer struct {
	mu          sync.Mutex
	made, until time.Time
	answer      *recordedAnswer
}

// entryFor returns the entry of an audience and request, which it creates if missing. If there are
// then too many, or they are too large, it evicts all others. Answers that are being made have no
// size yet.
func (c *answerCache) entryFor(x audience[string]) *sharedAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.kept[x]; s != nil {
		return s
	}
	size := 0
	for _, s := range c.kept {
		if s.mu.TryLock() { // otherwise it is being made
			size += s.answer.size()
			s.mu.Unlock()
		}
	}
	if c.kept == nil || len(c.kept) >= maxAudiences || size > maxSharedBytes {
		c.kept = map[audience[string]]*sharedAnswer{}
	}
	s := &sharedAnswer{}
	c.kept[x] = s
	return s
}

// get returns the answer that is kept, with its age, or a new one with the age 0. It makes one
// answer at a time. It is kept for a multiple of the CPU time that it cost, at most maxSharedTime,
// but only if it was expensive and has status 200.
func (s *sharedAnswer) get(a *API, r *http.Request) (answer *recordedAnswer, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := a.Clock.Now()
	if s.answer != nil && now.Before(s.until) {
		return s.answer, max(now.Sub(s.made), 1)
	}
	answer = &recordedAnswer{header: http.Header{}, status: http.StatusOK}
	cost := cpuTime(func() {
		a.mux.ServeHTTP(answer, r)
		answer.compress()
	})
	s.answer = nil
	if cost >= minSharedCost && answer.status == http.StatusOK {
		// The lists that it was made of may be older.
		older, _ := strconv.Atoi(answer.header.Get("Age"))
		s.answer = answer
		s.made = now.Add(-time.Duration(older) * time.Second)
		s.until = a.Clock.Now().Add(min(sharedShare*cost, maxSharedTime))
	}
	return answer, 0
}

// recordedAnswer is a response.
type recordedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer // empty after compress
	zipped []byte       // nil if it is not compressed
}

var _ http.ResponseWriter = (*recordedAnswer)(nil)

// Header returns the headers of the response.
func (x *recordedAnswer) Header() http.Header { return x.header }

// WriteHeader sets the status of the response.
func (x *recordedAnswer) WriteHeader(status int) { x.status = status }

// Write adds to the body of the response.
func (x *recordedAnswer) Write(text []byte) (int, error) { return x.body.Write(text) }

// size returns how many bytes the body takes, 0 if x is nil.
func (x *recordedAnswer) size() int {
	if x == nil {
		return 0
	}
	return x.body.Len() + len(x.zipped)
}

// compress compresses the body, unless it is small.
func (x *recordedAnswer) compress() {
	if x.body.Len() >= minCompressed {
		x.zipped, x.body = httpgzip.Compress(x.body.Bytes()), bytes.Buffer{}
	}
}

// write sends the recorded response, decompressed if the client does not accept gzip, with the
// header Vary: Accept-Encoding. Headers that w has already are kept. Errors of the connection are
// ignored.
func (x *recordedAnswer) write(w http.ResponseWriter, gzipAccepted bool) {
	for name, values := range x.header {
		if w.Header()[name] == nil {
			w.Header()[name] = values
		}
	}
	w.Header().Add("Vary", "Accept-Encoding")
	// A client that goes away gets no error.
	switch {
	case x.zipped == nil:
		w.WriteHeader(x.status)
		_, _ = w.Write(x.body.Bytes())
	case gzipAccepted:
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(x.status)
		_, _ = w.Write(x.zipped)
	default:
		w.WriteHeader(x.status)
		if text, err := gzip.NewReader(bytes.NewReader(x.zipped)); err == nil {
			_, _ = io.Copy(w, text)
		}
	}
}
