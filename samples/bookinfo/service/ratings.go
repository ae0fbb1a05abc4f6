package service

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// ratingsAnswer is stars by reviewer.
type ratingsAnswer struct {
	ID      int            `json:"id"`
	Ratings map[string]int `json:"ratings"`
}

// maxRated bounds how many products ratings remembers posts for.
const maxRated = 1024

type ratings struct {
	failures failures

	mu     sync.Mutex
	posted map[int]map[string]int
}

func newRatings() *ratings {
	return &ratings{failures: failures{seen: map[string]int{}}, posted: map[int]map[string]int{}}
}

func (s *ratings) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", healthy("Ratings"))
	mux.HandleFunc("GET /ratings/{id}", s.failures.before(s.get))
	mux.HandleFunc("POST /ratings/{id}", s.post)
	return mux
}

func (s *ratings) get(w http.ResponseWriter, r *http.Request) {
	if id, ok := productID(w, r); ok {
		writeJSON(w, http.StatusOK, s.of(id))
	}
}

func (s *ratings) post(w http.ResponseWriter, r *http.Request) {
	id, ok := productID(w, r)
	if !ok {
		return
	}
	var posted map[string]int
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&posted); err != nil {
		writeError(w, http.StatusBadRequest, "please provide valid ratings JSON")
		return
	}
	s.mu.Lock()
	if len(s.posted) >= maxRated {
		clear(s.posted)
	}
	s.posted[id] = posted
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, s.of(id))
}

func (s *ratings) of(id int) ratingsAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if posted, ok := s.posted[id]; ok {
		return ratingsAnswer{ID: id, Ratings: maps.Clone(posted)}
	}
	return ratingsAnswer{ID: id, Ratings: map[string]int{"Reviewer1": 5, "Reviewer2": 4}}
}

func productID(w http.ResponseWriter, r *http.Request) (int, bool) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		writeError(w, http.StatusBadRequest, "please provide numeric product ID")
		return 0, false
	}
	return id, true
}
