// Command ratelimit is a rate limit service for the tasks of docs/tasks: it allows --limit requests
// with each distinct descriptor in a minute, and answers OVER_LIMIT for the others. The counters
// are in memory, so it is no service for production.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

func main() {
	address := flag.String("listen", ":8081", "address to listen at")
	limit := flag.Int("limit", 3, "requests for each descriptor in a minute")
	flag.Parse()
	if err := serve(*address, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "ratelimit:", err)
		os.Exit(1)
	}
}

func serve(address string, limit int) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(server, &limiter{limit: limit, now: time.Now, counts: map[string]int{}})
	return server.Serve(listener)
}

// limiter counts requests in windows of a minute. A window begins with the first request after the
// former one.
type limiter struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	limit int
	now   func() time.Time

	mu     sync.Mutex
	begin  time.Time      // of the window
	counts map[string]int // by descriptor
}

// ShouldRateLimit counts a request for each of its descriptors. The answer is OVER_LIMIT if one of
// them has reached the limit.
func (l *limiter) ShouldRateLimit(
	_ context.Context,
	r *ratelimitv3.RateLimitRequest,
) (*ratelimitv3.RateLimitResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.begin) >= time.Minute {
		l.begin = now
		clear(l.counts)
	}
	answer := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}
	for _, d := range r.GetDescriptors() {
		var key strings.Builder
		for _, e := range d.GetEntries() {
			fmt.Fprintf(&key, "%q=%q ", e.GetKey(), e.GetValue())
		}
		l.counts[key.String()]++
		if l.counts[key.String()] > l.limit {
			answer.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
		}
	}
	return answer, nil
}
