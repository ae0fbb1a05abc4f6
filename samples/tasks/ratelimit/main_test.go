package main

import (
	"testing"
	"time"

	commonratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// TestLimiter: each descriptor has a limit of its own, which begins again after a minute.
func TestLimiter(t *testing.T) {
	now := time.Unix(0, 0)
	l := &limiter{limit: 2, now: func() time.Time { return now }, counts: map[string]int{}}
	ask := func(values ...string) (code ratelimitv3.RateLimitResponse_Code) {
		t.Helper()
		r := &ratelimitv3.RateLimitRequest{}
		for _, v := range values {
			r.Descriptors = append(r.Descriptors, &commonratelimitv3.RateLimitDescriptor{
				Entries: []*commonratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: v}},
			})
		}
		answer, err := l.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetOverallCode()
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	for i, c := range []struct {
		values []string
		want   ratelimitv3.RateLimitResponse_Code
	}{
		{[]string{"a"}, ok},
		{[]string{"a"}, ok},
		{[]string{"a"}, over},
		{[]string{"b"}, ok},
		{[]string{"b", "a"}, over},
		{nil, ok},
	} {
		if got := ask(c.values...); got != c.want {
			t.Errorf("request %d: %s, want %s", i, got, c.want)
		}
	}
	now = now.Add(time.Minute)
	if got := ask("a"); got != ok {
		t.Errorf("after a minute: %s", got)
	}
}
