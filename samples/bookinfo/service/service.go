package service

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
)

// Options say which service to be.
type Options struct {
	// Name is productpage, details, reviews or ratings. Required.
	Name string
	// Version of reviews: v1 shows no stars, v2 black ones, v3 red ones. The other services have v1 only.
	Version string
	// PodName and ClusterName are in the answers of reviews.
	PodName, ClusterName string
	// Details, Reviews and Ratings are "host:port" of the services that are called.
	Details, Reviews, Ratings string
	// UnhealthyFile makes /health answer 503 while a file of this name exists. Other requests are
	// answered as before. If empty, the service is always healthy.
	UnhealthyFile string
	Log           *slog.Logger
}

// New returns the handler of a service. It returns an error if the options are invalid.
func New(opts Options) (http.Handler, error) {
	handler, err := newService(opts)
	if err != nil || opts.UnhealthyFile == "" {
		return handler, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			if _, err := os.Stat(opts.UnhealthyFile); err == nil {
				writeError(w, http.StatusServiceUnavailable, "unhealthy, because a file asks for it")
				return
			}
		}
		handler.ServeHTTP(w, r)
	}), nil
}

func newService(opts Options) (http.Handler, error) {
	up := newUpstream(opts.Log)
	switch opts.Name {
	case "productpage":
		pages, err := parsePages()
		if err != nil {
			return nil, err
		}
		return (&productpage{
			details: opts.Details, reviews: opts.Reviews, ratings: opts.Ratings, up: up, pages: pages,
		}).routes(), nil
	case "details":
		return detailsRoutes(), nil
	case "reviews":
		stars, err := starsOf(opts.Version)
		if err != nil {
			return nil, err
		}
		return (&reviews{
			pod: opts.PodName, cluster: opts.ClusterName, stars: stars, ratings: opts.Ratings, up: up,
		}).routes(), nil
	case "ratings":
		return newRatings().routes(), nil
	default:
		return nil, fmt.Errorf("there is no service %q: want productpage, details, reviews or ratings", opts.Name)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// writeError answers in the form that all of Bookinfo's services use.
func writeError(w http.ResponseWriter, status int, reason string) {
	writeJSON(w, status, map[string]string{"error": reason})
}

func healthy(service string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": service + " is healthy"})
	}
}
