package story

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// loadRate is the number of calls a second from outside during changes.
const loadRate = 60

// Tally counts calls.
type Tally struct {
	Sent, Failed int
	// Failures are the texts of the first failures.
	Failures []string
	Took     time.Duration
}

// mostFailures is the maximum number of failures with a text.
const mostFailures = 5

// underLoad calls Bookinfo at a steady rate while f runs, each call on its own whatever the others
// do, and returns their results.
func (s *Stage) underLoad(ctx context.Context, f func(context.Context) error) (Tally, error) {
	loading, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	var tally Tally
	began := time.Now()
	var calls, clock sync.WaitGroup
	clock.Go(func() {
		tick := time.NewTicker(time.Second / loadRate)
		defer tick.Stop()
		for {
			select {
			case <-loading.Done():
				return
			case <-tick.C:
			}
			calls.Go(func() {
				// Not the context that ends the load: pending replies are awaited.
				sent := time.Now()
				code, body, err := s.getPath(ctx, reviewsPath)
				mu.Lock()
				defer mu.Unlock()
				tally.Sent++
				if err == nil && code == http.StatusOK {
					return
				}
				tally.Failed++
				if len(tally.Failures) < mostFailures {
					tally.Failures = append(
						tally.Failures,
						fmt.Sprintf("%s: %d %.120s (%v)", sent.Format("15:04:05.000"), code, body, err),
					)
				}
			})
		}
	})
	err := f(ctx)
	stop()
	clock.Wait()
	calls.Wait()
	tally.Took = time.Since(began)
	return tally, err
}
