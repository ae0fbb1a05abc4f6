package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// ProductReviews and Reviews are where reviews are asked for: as a reader of the page does, or directly.
const (
	ProductReviews = "http://productpage:9080/api/v1/products/0/reviews"
	Reviews        = "http://reviews:9080/reviews/0"
	Ratings        = "http://ratings:9080/ratings/0"
)

// callTimeout bounds a request.
const callTimeout = 15 * time.Second

// Caller sends requests from a node, and never twice: neither it nor the HTTP transport under it retries.
type Caller struct {
	client *http.Client
}

// NewCaller returns a caller whose connections are kept alive until Close.
func NewCaller(from *netns.Node) *Caller {
	return &Caller{client: from.Client(callTimeout)}
}

// Close closes the connections.
func (c *Caller) Close() { c.client.CloseIdleConnections() }

// Answer is what came of a request.
type Answer struct {
	Status int // 0 if there was no answer
	Header http.Header
	Body   []byte
	Took   time.Duration
	Err    error
}

// noBody is an empty body that cannot be sent again. With none at all the transport would take a GET for repeatable,
// and silently send it once more when a kept-alive connection breaks: a lost request would not be seen.
type noBody struct{}

func (noBody) Read([]byte) (int, error) { return 0, io.EOF }
func (noBody) Close() error             { return nil }

// Get sends a GET with header lines "name: value".
func (c *Caller) Get(ctx context.Context, url string, header ...string) Answer {
	return c.get(ctx, url, false, header)
}

// GetOnce sends a GET on a connection of its own.
func (c *Caller) GetOnce(ctx context.Context, url string, header ...string) Answer {
	return c.get(ctx, url, true, header)
}

// get sends a GET, on a connection of its own if fresh.
func (c *Caller) get(ctx context.Context, url string, fresh bool, header []string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, noBody{})
	if err != nil {
		return Answer{Err: err}
	}
	req.Close = fresh
	for _, line := range header {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Add(name, strings.TrimSpace(value))
	}
	begin := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		return Answer{Err: err, Took: time.Since(begin)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body, Took: time.Since(begin), Err: err}
}

// String is the answer in a few words.
func (a Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	body := strings.TrimSpace(string(a.Body))
	if len(body) > 120 {
		body = body[:120] + "…"
	}
	return fmt.Sprintf("%d %s", a.Status, body)
}

// Version is which version of reviews answered, "v1" say; empty if none did.
func (a Answer) Version() string {
	r, err := a.reviews()
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(r.PodName, "reviews-")
}

// Complete returns nil for an answer of reviews to which nothing is missing, no rating either.
func (a Answer) Complete() error {
	r, err := a.reviews()
	if err != nil {
		return err
	}
	for _, review := range r.Reviews {
		if review.Rating.Error != "" {
			return fmt.Errorf("%s, without ratings: %s", r.PodName, review.Rating.Error)
		}
	}
	return nil
}

type reviewsAnswer struct {
	PodName string `json:"podname"`
	Reviews []struct {
		Rating struct {
			Error string `json:"error"`
		} `json:"rating"`
	} `json:"reviews"`
}

func (a Answer) reviews() (reviewsAnswer, error) {
	var r reviewsAnswer
	if a.Err != nil {
		return r, a.Err
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &r) != nil || r.PodName == "" || len(r.Reviews) == 0 {
		return r, fmt.Errorf("not reviews: %s", a)
	}
	return r, nil
}
