package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// pollEvery is how often a condition is looked at.
const pollEvery = 15 * time.Millisecond

// ProcessError reports a process that failed, or did not reach the awaited condition. It names the
// log.
type ProcessError struct {
	Node, Process string
	Log           string
	Err           error
}

// Error returns the process, its node, the error and the path of the log.
func (e *ProcessError) Error() string {
	return fmt.Sprintf("%s on node %q: %v (log: %s)", e.Process, e.Node, e.Err, e.Log)
}

func (e *ProcessError) Unwrap() error { return e.Err }

// Tail returns the last lines of the process's log, at most that many, or "" if it cannot be read.
func (e *ProcessError) Tail(lines int) string { return tailOf(e.Log, lines) }

// newError returns err as a *ProcessError of the process.
func (p *Process) newError(err error) error {
	return &ProcessError{Node: p.node.name, Process: p.name, Log: p.log, Err: err}
}

// Wait waits for the process to end. It returns nil if the exit status is 0, and a *ProcessError if
// the process ends otherwise, or if ctx ends while it runs. It does not end the process.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		if p.err != nil {
			return p.newError(p.err)
		}
		return nil
	case <-ctx.Done():
		return p.newError(fmt.Errorf("still running: %w", ctx.Err()))
	}
}

// Await calls cond until it returns nil, at least once, with pauses of pollEvery. what names the
// condition in errors. If ctx ends first, it returns a *ProcessError with the last error of cond.
// If the process ends first, it returns one with the exit status.
func (p *Process) Await(ctx context.Context, what string, cond func(context.Context) error) error {
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if last == nil || !isOver(ctx) { // an answer cut short by ctx says less than the one before
			last = err
		}
		select {
		case <-p.done:
			ended := p.err
			if ended == nil {
				ended = errors.New("exit status 0")
			}
			return p.newError(fmt.Errorf("ended (%w) while waiting for %s", ended, what))
		default:
		}
		if !sleepFor(ctx, pollEvery) {
			return p.newError(fmt.Errorf("waiting for %s: %w", what, last))
		}
	}
}

// isOver reports whether ctx has ended or its deadline has passed. A dialer that has the deadline
// can report a timeout a moment before ctx ends.
func isOver(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// AwaitPort waits until something accepts TCP connections at an address of the node,
// "127.0.0.1:9080". It returns the error of Await if ctx or the process ends first.
func (p *Process) AwaitPort(ctx context.Context, address string) error {
	return p.Await(ctx, "port "+address, func(ctx context.Context) error {
		conn, err := p.node.Dial(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// AwaitOK repeats a GET of url from the node until it is answered with 200; redirects are not
// followed. A request may take 2 s. It returns the error of Await if ctx or the process ends first.
func (p *Process) AwaitOK(ctx context.Context, url string) error {
	client := p.node.Client(2 * time.Second)
	defer client.CloseIdleConnections()
	return p.Await(ctx, url, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
		}
		return nil
	})
}

// AwaitLine waits until the log holds a text, also one of an earlier process with the same log. It
// returns the error of Await if ctx or the process ends first.
func (p *Process) AwaitLine(ctx context.Context, text string) error {
	return p.Await(ctx, fmt.Sprintf("%q in the log", text), func(context.Context) error {
		if strings.Contains(readFile(p.log), text) {
			return nil
		}
		return errors.New("not there")
	})
}

// sleepFor waits for d. It returns false if ctx ends first.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
