package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder returns a Recorder, its log and its counts by component.
func recorder(now func() time.Time) (*Recorder, *bytes.Buffer, map[string]int) {
	var log bytes.Buffer
	counted := map[string]int{}
	return New(Options{
		Log: slog.New(slog.NewTextHandler(&log, nil)), Count: func(c string) { counted[c]++ }, Now: now,
	}), &log, counted
}

func TestCall(t *testing.T) {
	r, log, counted := recorder(nil)
	var p *Error
	err := r.Call("converter", func() error { var m map[string]int; m["a"] = 1; return nil }, "object", "Service/shop/web") //nolint:staticcheck // panics
	if !errors.As(err, &p) || p.Component != "converter" || !strings.Contains(string(p.Stack), "TestCall") {
		t.Errorf("error is %v", err)
	}
	for _, want := range []string{"object=Service/shop/web", "component=converter", "assignment to entry in nil map", "recovery_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	if counted["converter"] != 1 || len(counted) != 1 {
		t.Errorf("counted %v", counted)
	}
	failed := errors.New("failed")
	if err := r.Call("x", func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error is %v", err)
	}
}

// TestNoRecorder tests that without a Recorder a panic passes.
func TestNoRecorder(t *testing.T) {
	for name, f := range map[string]func(){
		"call":    func() { _ = (*Recorder)(nil).Call("x", func() error { panic("own") }) },
		"context": func() { _ = Loop(t.Context(), "x", func(context.Context) error { panic("own") }) },
		"record": func() {
			defer func() {
				if v := recover(); v != nil {
					_ = (*Recorder)(nil).Record(v, "x")
				}
			}()
			panic("own")
		},
	} {
		func() {
			defer func() {
				if v := recover(); v != "own" {
					t.Errorf("%s: recovered %v", name, v)
				}
			}()
			f()
		}()
	}
}

// TestLogIsLimited tests that one place in the code logs one stack and ten lines a minute, and that
// others still log.
func TestLogIsLimited(t *testing.T) {
	now := time.Unix(0, 0)
	r, log, counted := recorder(func() time.Time { return now })
	first := func(i int) { _ = r.Call("a", func() error { panic(fmt.Sprint("first ", i)) }) }
	for i := range 1000 {
		first(i)
	}
	_ = r.Call("a", func() error { panic("second") })
	if lines, stacks := strings.Count(log.String(), "recovered from a panic"), strings.Count(log.String(), "stack="); lines != maxLogged+1 || stacks != 2 {
		t.Errorf("%d lines with %d stacks", lines, stacks)
	}
	if counted["a"] != 1001 {
		t.Errorf("counted %v", counted)
	}
	log.Reset()
	now = now.Add(logPeriod)
	first(0)
	if !strings.Contains(log.String(), "suppressed=990") || !strings.Contains(log.String(), "stack=") {
		t.Errorf("after the period: %s", log)
	}
}

func TestSitesAreBounded(t *testing.T) {
	l := newLogLimiter(nil)
	for i := range 10 * maxSites {
		l.allow(fmt.Sprint(i))
	}
	if len(l.sites) > maxSites+1 {
		t.Errorf("%d sites are tracked", len(l.sites))
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log, counted := recorder(nil)
		ctx := NewContext(t.Context(), r)
		began, runs := time.Now(), []time.Duration{}
		done := errors.New("done")
		err := Loop(ctx, "status", func(ctx context.Context) error {
			runs = append(runs, time.Since(began))
			context.AfterFunc(ctx, func() {})
			if len(runs) < 9 {
				panic("again")
			}
			return done
		})
		if !errors.Is(err, done) {
			t.Errorf("returned %v", err)
		}
		want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183} // seconds
		for i := range want {
			if runs[i] != time.Duration(want[i])*time.Second {
				t.Errorf("run %d after %v, want %v s", i, runs[i], want[i])
			}
		}
		if counted["task"] != 8 || !strings.Contains(log.String(), "task=status") {
			t.Errorf("counted %v, logged %s", counted, log)
		}
	})
}

// TestLoopEndsWithContext tests that a task is not restarted after its context has ended.
func TestLoopEndsWithContext(t *testing.T) {
	r, _, _ := recorder(nil)
	ctx, cancel := context.WithCancel(NewContext(t.Context(), r))
	runs := 0
	if err := Loop(ctx, "x", func(context.Context) error { runs++; cancel(); panic("over") }); err != nil || runs != 1 {
		t.Errorf("%d runs, error %v", runs, err)
	}
}
