package main

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// callTime is the timeout of a call: a longer call counts as lost.
const callTime = 5 * time.Second

// Tally is the result of calls.
type Tally struct {
	Sent int
	// Answers counts the answers by server, Callers those by the caller's identity as servers saw
	// it.
	Answers, Callers map[string]int
	// Failed counts the failed calls by the name of their code; Failures has the texts of the
	// first.
	Failed   map[string]int
	Failures []string
	// Early is how many calls grpc-go itself failed, and are not in Failed: for a moment a channel
	// chooses clusters by new routes before its balancer has heard of them. No order of pushes
	// prevents it.
	Early int
}

// mostFailures is the maximum number of failures with a text.
const mostFailures = 5

func newTally() Tally {
	return Tally{Answers: map[string]int{}, Callers: map[string]int{}, Failed: map[string]int{}}
}

func (t *Tally) addResult(answer *testpb.SimpleResponse, err error) {
	t.Sent++
	if err == nil {
		t.Answers[answer.GetServerId()]++
		t.Callers[answer.GetUsername()]++
		return
	}
	if strings.Contains(err.Error(), "unknown cluster selected for RPC") {
		t.Early++
		return
	}
	t.Failed[status.Code(err).String()]++
	if len(t.Failures) < mostFailures {
		t.Failures = append(t.Failures, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
	}
}

// makeCall makes one call, with metadata as pairs of names and values.
func makeCall(ctx context.Context, client *grpc.ClientConn, headers ...string) (*testpb.SimpleResponse, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, headers...), callTime)
	defer cancel()
	return testpb.NewTestServiceClient(client).UnaryCall(ctx, new(testpb.SimpleRequest))
}

// load calls at a steady rate, each call on its own whatever the others do.
type load struct {
	end     context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	seen Tally
}

func startLoad(client *grpc.ClientConn, rate int) *load {
	ctx, end := context.WithCancel(context.Background())
	l := &load{end: end, seen: newTally()}
	l.running.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.running.Go(func() {
				answer, err := makeCall(context.WithoutCancel(ctx), client) // pending replies are awaited
				l.mu.Lock()
				defer l.mu.Unlock()
				l.seen.addResult(answer, err)
			})
		}
	})
	return l
}

// stopLoad ends the load when all calls have ended.
func (l *load) stopLoad() {
	l.end()
	l.running.Wait()
}

func (l *load) currentTally() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.seen
	t.Answers, t.Callers, t.Failed = maps.Clone(t.Answers), maps.Clone(t.Callers), maps.Clone(t.Failed)
	t.Failures = append([]string{}, t.Failures...)
	return t
}
