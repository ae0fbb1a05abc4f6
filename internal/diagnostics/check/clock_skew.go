package check

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// clockSkew is the difference of clocks that is reported, and maxClockSkew the difference that
// fails.
const (
	clockSkew    = 30 * time.Second
	maxClockSkew = 5 * time.Minute
)

// clocksAgree compares the clocks of the API server and the replicas with the one of this machine.
// It warns of more than clockSkew and fails for more than maxClockSkew. Servers that do not answer
// are ignored; if none answers, it passes.
func clocksAgree(ctx context.Context, t *Target) outcome {
	var wrong, far findings
	if t.Client != nil {
		// The typed clients do not return headers.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			strings.TrimSuffix(t.Client.Config.Host, "/")+"/version", nil)
		if err != nil {
			return fail("%v", err)
		}
		if answer, err := t.Client.HTTP.Do(request); err == nil {
			answer.Body.Close()
			t.compareClock("the API server", answer.Header, &wrong, &far)
		}
	}
	if t.Control != nil {
		for _, r := range t.Control.Replicas {
			if _, header, err := get(ctx, r, "/version"); err == nil {
				t.compareClock(r.Name, header, &wrong, &far)
			}
		}
	}
	return conclude(wrong, far, "within %s of this machine", clockSkew)
}

// compareClock adds to wrong or far if the Date in header differs from the time of this machine by
// more than maxClockSkew or clockSkew. It does nothing if there is no valid Date.
func (t *Target) compareClock(name string, header http.Header, wrong, far *findings) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	difference := date.Sub(t.Now()).Round(time.Second)
	switch {
	case difference.Abs() > maxClockSkew:
		wrong.add("%s differs by %s", name, difference)
	case difference.Abs() > clockSkew:
		far.add("%s differs by %s", name, difference)
	}
}
