package obs

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLimited floods a limited Logger: few records of one message pass, with the number of dropped
// ones. Other messages are not affected, and the number of separate limits is bounded.
func TestLimited(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	limits := &messageLimits{now: func() time.Time { return now }, limits: map[string]*messageLimit{}}
	log := slog.New(limitHandler{slog.NewTextHandler(&out, nil), limits}).With("scope", "ca")
	for range 10_000 {
		log.Warn("request refused")
	}
	log.Warn("another")
	now = now.Add(time.Second)
	for range 10_000 {
		log.WithGroup("g").Warn("request refused", "a", 1)
	}
	refused, suppressed := strings.Count(out.String(), "request refused"), strings.Count(out.String(), "suppressed=9980")
	if refused != limitedBurst+limitedPerSecond || suppressed != 1 || strings.Count(out.String(), "another") != 1 {
		t.Errorf("%d records passed, %d records report the number of dropped ones:\n%s", refused, suppressed, out.String())
	}
	for n := range 10_000 {
		log.Info(fmt.Sprint("message ", n))
	}
	if len(limits.limits) > maxLimited+1 {
		t.Errorf("%d messages are kept apart", len(limits.limits))
	}
}
