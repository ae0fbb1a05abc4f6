package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
)

// controller takes requests for calls:
//
//	GET  /ready                          200 once the server serves
//	POST /calls?target=T&count=N         makes N calls, one after the other; header=NAME:VALUE goes with each
//	POST /load?target=T&rate=R           calls R times a second from now on
//	GET /load?target=T returns the results of these calls until now
//	POST /load?target=T&rate=0 ends the load, and returns its results
type controller struct {
	xds   bool
	ready atomic.Bool

	mu      sync.Mutex
	clients map[string]*grpc.ClientConn // by target
	loads   map[string]*load            // by target
}

func newController(xds bool) *controller {
	return &controller{xds: xds, clients: map[string]*grpc.ClientConn{}, loads: map[string]*load{}}
}

func (c *controller) closeClients() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.loads {
		l.stopLoad()
	}
	for _, client := range c.clients {
		_ = client.Close()
	}
}

func (c *controller) httpHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !c.ready.Load() {
			http.Error(w, "it does not serve yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /calls", answerWith(c.makeCalls))
	mux.HandleFunc("POST /load", answerWith(c.setLoad))
	mux.HandleFunc("GET /load", answerWith(c.getLoad))
	return mux
}

func answerWith(f func(*http.Request) (Tally, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tally, err := f(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(tally)
	}
}

// clientOf returns the one client of a target.
func (c *controller) clientOf(target string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := c.clients[target]; there != nil {
		return there, nil
	}
	creds := insecure.NewCredentials()
	if c.xds {
		var err error
		if creds, err = xdscreds.NewClientCredentials(
			xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()},
		); err != nil {
			return nil, err
		}
	}
	// Without retries, so that lost calls are visible.
	made, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithDisableRetry())
	if err == nil {
		c.clients[target] = made
	}
	return made, err
}

func (c *controller) makeCalls(r *http.Request) (Tally, error) {
	client, err := c.clientOf(r.FormValue("target"))
	if err != nil {
		return Tally{}, err
	}
	count, err := strconv.Atoi(r.FormValue("count"))
	if err != nil {
		return Tally{}, err
	}
	var headers []string
	for _, h := range r.Form["header"] {
		name, value, _ := strings.Cut(h, ":")
		headers = append(headers, name, value)
	}
	tally := newTally()
	for range count {
		tally.addResult(makeCall(r.Context(), client, headers...))
	}
	return tally, nil
}

func (c *controller) setLoad(r *http.Request) (Tally, error) {
	target := r.FormValue("target")
	rate, err := strconv.Atoi(r.FormValue("rate"))
	if err != nil {
		return Tally{}, err
	}
	if rate > 0 {
		client, err := c.clientOf(target)
		if err != nil {
			return Tally{}, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.loads[target] != nil {
			return Tally{}, fmt.Errorf("there is load on %s already", target)
		}
		c.loads[target] = startLoad(client, rate)
		return newTally(), nil
	}
	c.mu.Lock()
	l := c.loads[target]
	delete(c.loads, target)
	c.mu.Unlock()
	if l == nil {
		return Tally{}, fmt.Errorf("no load on %s", target)
	}
	l.stopLoad()
	return l.currentTally(), nil
}

func (c *controller) getLoad(r *http.Request) (Tally, error) {
	c.mu.Lock()
	l := c.loads[r.FormValue("target")]
	c.mu.Unlock()
	if l == nil {
		return Tally{}, fmt.Errorf("no load on %s", r.FormValue("target"))
	}
	return l.currentTally(), nil
}
