package recovery

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Options configure a Recorder.
type Options struct {
	// Log receives an entry for each panic, within the limits of logLimiter. If nil, nothing is
	// logged.
	Log *slog.Logger
	// Count is called for each panic with its component. If nil, nothing is counted.
	Count func(component string)
	// Now returns the time, for the limits of the log. If nil, it is time.Now.
	Now func() time.Time
}

// Recorder logs and counts recovered panics. A nil Recorder recovers nothing: its methods let a
// panic pass. It is safe for concurrent use.
type Recorder struct {
	log     *slog.Logger
	count   func(component string)
	limiter *logLimiter
}

// New returns a Recorder. Without o.Log or o.Count it does not log or count. If o.Now is nil, it is
// time.Now.
func New(o Options) *Recorder {
	r := &Recorder{log: o.Log, count: o.Count, limiter: newLogLimiter(o.Now)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.count == nil {
		r.count = func(string) {}
	}
	return r
}

// Error is a recovered panic.
type Error struct {
	// Component is the part of the program that panicked: "converter", "snapshot", "xds", "grpc",
	// "http", "task", …
	Component string
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine when it panicked.
	Stack []byte
}

// Error returns the component and the value of the panic, without the stack.
func (e *Error) Error() string { return fmt.Sprintf("panic in %s: %v", e.Component, e.Value) }

// Record counts a panic, logs it unless its line has panicked too often recently (logLimiter), and
// returns it as an error. value is the result of recover, which the caller's deferred function must
// call itself. about are key-value pairs for the log that name the object, proxy or request. On a
// nil Recorder it panics with value again.
//
//	defer func() {
//		if v := recover(); v != nil {
//			err = recorder.Record(v, "converter", "object", key)
//		}
//	}()
func (r *Recorder) Record(value any, component string, about ...any) *Error {
	if r == nil {
		panic(value)
	}
	e := &Error{Component: component, Value: value, Stack: debug.Stack()}
	r.count(component)
	stack, suppressed, allowed := r.limiter.allow(component + " " + panicSite(e.Stack))
	if !allowed {
		return e
	}
	fields := append([]any{"component", component, "panic", fmt.Sprint(value)}, about...)
	if suppressed > 0 {
		fields = append(fields, "suppressed", suppressed)
	}
	if stack {
		fields = append(fields, "stack", string(e.Stack))
	}
	r.log.Error("recovered from a panic: this is a bug", fields...)
	return e
}

// Call calls f and returns its error, or an *Error if f panicked. The panic is recorded with the
// component and about. If r is nil, panics are not recovered.
func (r *Recorder) Call(component string, f func() error, about ...any) (err error) {
	if r == nil {
		return f()
	}
	defer func() {
		if v := recover(); v != nil {
			err = r.Record(v, component, about...)
		}
	}()
	return f()
}

type contextKey struct{}

// NewContext returns a context that carries a Recorder to the goroutines of long-running tasks.
func NewContext(ctx context.Context, r *Recorder) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the Recorder of a context, nil if it carries none.
func FromContext(ctx context.Context) *Recorder {
	r, _ := ctx.Value(contextKey{}).(*Recorder)
	return r
}

// Call calls Recorder.Call with the Recorder of the context. Without one, panics are not recovered.
func Call(ctx context.Context, component string, f func() error, about ...any) error {
	return FromContext(ctx).Call(component, f, about...)
}
