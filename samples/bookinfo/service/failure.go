package service

import (
	"net/http"
	"strconv"
	"sync"
)

const (
	// failFirstHeader asks ratings to answer 500 to the first n requests of one x-request-id, n at most maxFailFirst.
	failFirstHeader = "x-fail-first"
	// attemptHeader is the header of responses with the number of requests of that id so far.
	attemptHeader = "x-attempt"

	maxFailFirst = 100
	// maxFailing bounds how many request ids are remembered.
	maxFailing = 1024
)

// failures counts the requests that were asked to fail, by request id. Envoy keeps the id of a request it retries.
type failures struct {
	mu   sync.Mutex
	seen map[string]int
}

func (f *failures) before(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first, err := strconv.Atoi(r.Header.Get(failFirstHeader))
		if err != nil {
			next(w, r)
			return
		}
		attempt, fail := f.count(r.Header.Get("x-request-id"), min(first, maxFailFirst))
		w.Header().Set(attemptHeader, strconv.Itoa(attempt))
		if fail {
			writeError(w, http.StatusInternalServerError, "failing as asked")
			return
		}
		next(w, r)
	}
}

// count returns which attempt of the id this is, from 1, and whether it is among the first n. An id is forgotten with
// its first success.
func (f *failures) count(id string, first int) (attempt int, fail bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) >= maxFailing {
		clear(f.seen)
	}
	f.seen[id]++
	attempt = f.seen[id]
	if fail = attempt <= first; !fail {
		delete(f.seen, id)
	}
	return attempt, fail
}
