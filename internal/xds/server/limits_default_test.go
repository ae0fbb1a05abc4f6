package server

import (
	"testing"
	"time"
)

// TestDefaultLimits checks that the defaults are the values of ADR 32. The effect of each limit is
// tested with smaller values.
func TestDefaultLimits(t *testing.T) {
	want := Limits{
		PendingPerSource: 1024, Pending: 4096, StreamsPerConnection: 100, SmallRequest: 1 << 20, Request: 16 << 20,
		Unread: 64 << 20, Handshake: 10 * time.Second, FirstRequest: 10 * time.Second,
	}
	if got := (Limits{}).withDefaults(); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
	// A larger limit for one message raises the limit for all of them, or no such message could arrive.
	if got := (Limits{SmallRequest: 256 << 20}).withDefaults().Unread; got != 512<<20 {
		t.Errorf("with messages of 256 MiB, %d unread bytes are allowed, want 512 MiB", got)
	}
	if got := (Limits{Request: 100 << 20}).withDefaults(); got.Request != 100<<20 || got.Unread != 200<<20 {
		t.Errorf("ISTIO_GPRC_MAXRECVMSGSIZE of 100 MiB: messages of %d bytes, %d unread bytes", got.Request, got.Unread)
	}
	s := New(Options{})
	if s.sendTimeout != 30*time.Second || s.maxSendTime != 3*time.Minute {
		t.Errorf("a response may be unread for %v, and take %v in all; want 30s and 3m", s.sendTimeout, s.maxSendTime)
	}
	if maxElements != 32<<10 || maxDepth != 100 || maxFieldBytes != 1<<20 || maxHeaders != 128<<10 {
		t.Errorf("requests: %d elements, depth %d, fields of %d bytes, headers of %d bytes",
			maxElements, maxDepth, maxFieldBytes, maxHeaders)
	}
}
