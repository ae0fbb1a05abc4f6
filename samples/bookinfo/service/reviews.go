package service

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// stars is how a version of reviews shows ratings; without a color it does not ask for them.
type stars struct {
	color string
	// patience is how long it waits for ratings; that of v3 is short, as in the sample.
	patience time.Duration
}

func starsOf(version string) (stars, error) {
	switch version {
	case "v1":
		return stars{}, nil
	case "v2":
		return stars{color: "black", patience: 10 * time.Second}, nil
	case "v3":
		return stars{color: "red", patience: 2500 * time.Millisecond}, nil
	default:
		return stars{}, fmt.Errorf("reviews has no version %q: want v1, v2 or v3", version)
	}
}

type reviews struct {
	pod, cluster string
	stars        stars
	ratings      string
	up           *upstream
}

// reviewsAnswer names its pod, so that a client can count which version answered.
type reviewsAnswer struct {
	ID          string   `json:"id"`
	PodName     string   `json:"podname"`
	ClusterName string   `json:"clustername"`
	Reviews     []review `json:"reviews"`
}

type review struct {
	Reviewer string  `json:"reviewer"`
	Text     string  `json:"text"`
	Rating   *rating `json:"rating,omitempty"`
}

// rating is stars with a color, or an error.
type rating struct {
	Stars int    `json:"stars,omitempty"`
	Color string `json:"color,omitempty"`
	Error string `json:"error,omitempty"`
}

func (s *reviews) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", healthy("Reviews"))
	mux.HandleFunc("GET /reviews/{id}", s.byID)
	return mux
}

func (s *reviews) byID(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		writeError(w, http.StatusBadRequest, "please provide numeric product id")
		return
	}
	answer := reviewsAnswer{
		ID: strconv.Itoa(id), PodName: s.pod, ClusterName: s.cluster,
		Reviews: []review{
			{Reviewer: "Reviewer1", Text: "Two pairs of twins and not a quiet minute: the shortest of the plays, and the funniest."},
			{Reviewer: "Reviewer2", Text: "A pleasure to watch, if a little light beside the later comedies."},
		},
	}
	if s.stars.color != "" {
		s.rate(r, answer)
	}
	writeJSON(w, http.StatusOK, answer)
}

// rate adds to each review its rating, or that there is none to be had: reviews answers 200 all the same.
func (s *reviews) rate(r *http.Request, answer reviewsAnswer) {
	var got ratingsAnswer
	url := "http://" + s.ratings + "/ratings/" + answer.ID
	_, err := s.up.get(r.Context(), url, passedOn(r.Header), s.stars.patience, &got)
	for i := range answer.Reviews {
		n, ok := got.Ratings[answer.Reviews[i].Reviewer]
		if err != nil || !ok {
			answer.Reviews[i].Rating = &rating{Error: "Ratings service is currently unavailable"}
			continue
		}
		answer.Reviews[i].Rating = &rating{Stars: n, Color: s.stars.color}
	}
}
