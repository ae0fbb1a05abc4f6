package kube

import (
	"context"
	"log/slog"
)

// aside makes what client-go logs a detail: it reports every attempt that fails, and what counts of that is a Problem once.
type aside struct{ slog.Handler }

// Enabled says whether details are wanted.
func (a aside) Enabled(ctx context.Context, _ slog.Level) bool {
	return a.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs a detail.
func (a aside) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return a.Handler.Handle(ctx, r)
}

// WithAttrs keeps details details.
func (a aside) WithAttrs(attrs []slog.Attr) slog.Handler { return aside{a.Handler.WithAttrs(attrs)} }

// WithGroup keeps details details.
func (a aside) WithGroup(name string) slog.Handler { return aside{a.Handler.WithGroup(name)} }
