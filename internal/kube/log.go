package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Quietly gives a context in which client-go logs to log, as details. By itself it writes to stderr, and reports every attempt that
// fails of every watch; what counts of that is a Problem, once.
func Quietly(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(aside{log.Handler()}))
}

// aside makes all that is logged a detail.
type aside struct{ slog.Handler }

// Enabled says whether details are wanted.
func (a aside) Enabled(ctx context.Context, _ slog.Level) bool {
	return a.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs a detail. Of errors nobody asks first whether they are wanted.
func (a aside) Handle(ctx context.Context, r slog.Record) error {
	if !a.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return a.Handler.Handle(ctx, r)
}

// WithAttrs keeps details details.
func (a aside) WithAttrs(attrs []slog.Attr) slog.Handler { return aside{a.Handler.WithAttrs(attrs)} }

// WithGroup keeps details details.
func (a aside) WithGroup(name string) slog.Handler { return aside{a.Handler.WithGroup(name)} }
