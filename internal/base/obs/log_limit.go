package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// limitedPerSecond and limitedBurst limit how many records of one message a limited Logger
	// passes.
	limitedPerSecond = 5
	limitedBurst     = 20
	// maxLimited bounds the number of messages with their own limit. All others share one.
	maxLimited = 256
)

// Limited returns a Logger that rate-limits records by message: five a second with a burst of
// twenty. The next record that passes has the number of dropped ones as attribute "suppressed".
// Records below info are not limited. It is for events that clients can cause; messages must be
// constant, and variable parts belong into attributes.
func Limited(log *slog.Logger) *slog.Logger {
	limits := &messageLimits{now: time.Now, limits: map[string]*messageLimit{}}
	return slog.New(limitHandler{log.Handler(), limits})
}

// limitHandler applies messageLimits. Derived handlers share them.
type limitHandler struct {
	slog.Handler
	limits *messageLimits
}

// Handle handles a record unless its message exceeds its limit. Records below level info always
// pass. After suppressed records, the next one has their number as an attribute.
func (h limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return h.Handler.Handle(ctx, r)
	}
	suppressed, ok := h.limits.allow(r.Message)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes and the same limits.
func (h limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitHandler{h.Handler.WithAttrs(attrs), h.limits}
}

// WithGroup returns a handler for a group of attributes with the same limits.
func (h limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{h.Handler.WithGroup(name), h.limits}
}

// messageLimits holds the rate limit of each message.
type messageLimits struct {
	now func() time.Time

	mu     sync.Mutex
	limits map[string]*messageLimit
}

// messageLimit is the limit of one message, and how many records were dropped since one last
// passed.
type messageLimit struct {
	limiter    *rate.Limiter
	suppressed int
}

// allow reports whether a record of the message may pass, and if so, how many were dropped since a
// record last passed. Beyond maxLimited messages all others share a limit.
func (l *messageLimits) allow(message string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.limits[message]
	if m == nil && len(l.limits) >= maxLimited {
		message = ""
		m = l.limits[message]
	}
	if m == nil {
		m = &messageLimit{limiter: rate.NewLimiter(limitedPerSecond, limitedBurst)}
		l.limits[message] = m
	}
	if !m.limiter.AllowN(l.now(), 1) {
		m.suppressed++
		return 0, false
	}
	suppressed, m.suppressed = m.suppressed, 0
	return suppressed, true
}
