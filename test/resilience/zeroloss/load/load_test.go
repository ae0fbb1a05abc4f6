package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
)

// stub answers until the test makes it fail.
type stub struct{ broken *atomic.Bool }

func (s stub) Call(_ context.Context, id string) (echo.Reply, error) {
	if s.broken.Load() {
		return echo.Reply{}, errors.New("broken")
	}
	return echo.Reply{ID: id, Version: "v1"}, nil
}

func (stub) Close() {}

func TestEveryRequestIsCountedWhereItBelongs(t *testing.T) {
	broken := new(atomic.Bool)
	lane := Lane{
		Name: "one lane", Kind: echo.HTTP, Rate: 2000, Workers: 4, Timeout: time.Second,
		Caller: func() echo.Caller { return stub{broken} },
	}
	l := Start([]Lane{lane})
	l.During("good")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	good := func(since time.Time) error {
		return l.Await(ctx, func(newest map[string]Seen) error {
			if s := newest["one lane"]; s.Version != "v1" || s.Sent.Before(since) {
				return fmt.Errorf("the newest is %+v", s)
			}
			return nil
		})
	}
	if err := good(time.Now()); err != nil {
		t.Fatal(err)
	}
	l.During("bad")
	broken.Store(true)
	for l.Tally().Sum(nil).Failed == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	broken.Store(false)
	if err := good(time.Now()); err != nil {
		t.Fatal(err)
	}
	tally := l.Stop()
	if n := tally.Cells[Cell{"good", "one lane", echo.HTTP}]; n.Sent == 0 || n.Failed != 0 {
		t.Errorf("while all was good: %+v", n)
	}
	n := tally.Cells[Cell{"bad", "one lane", echo.HTTP}]
	if n.Failed == 0 || n.Failed == n.Sent || len(tally.Failures) != min(n.Failed, failuresKept) {
		t.Errorf("while it was broken: %+v, and %d described", n, len(tally.Failures))
	}
	if tally.Rate() <= 0 || tally.Sum(nil).Sent < n.Sent {
		t.Errorf("%v a second, %+v in all", tally.Rate(), tally.Sum(nil))
	}
}
