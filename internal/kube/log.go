package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// WithDebugLogging returns a context in which client-go logs to log at debug level. By default it
// logs every failed attempt of every watch to stderr; relevant failures are reported as Problems
// instead.
func WithDebugLogging(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(debugHandler{log.Handler()}))
}

// debugHandler lowers all records to debug level.
type debugHandler struct{ slog.Handler }

// Enabled reports whether the debug level is enabled, for records of any level.
func (a debugHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return a.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs the record at debug level, or drops it if that level is not enabled. It checks that
// itself, because klog does not call Enabled for errors.
func (a debugHandler) Handle(ctx context.Context, r slog.Record) error {
	if !a.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return a.Handler.Handle(ctx, r)
}

// WithAttrs returns a debugHandler with the attributes.
func (a debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{a.Handler.WithAttrs(attrs)}
}

// WithGroup returns a debugHandler with the group.
func (a debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{a.Handler.WithGroup(name)}
}
