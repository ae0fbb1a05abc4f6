package kube

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// TestQuietly: messages of client-go are logged at debug level, whatever their own level.
func TestQuietly(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		ctx := WithDebugLogging(
			context.Background(),
			slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})),
		)
		logger := klog.FromContext(ctx).WithValues("reflector", "pods").WithName("cache")
		logger.Error(errors.New("refused"), "Failed to watch")
		logger.Info("Watch closed")
		if got := strings.Count(out.String(), "level=DEBUG") == 2; got != want || !want && out.Len() > 0 {
			t.Errorf("at %v:\n%s", level, &out)
		}
	}
}
