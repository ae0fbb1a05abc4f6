package config

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// checkDuration checks an optional duration that must be positive. Proxies count in milliseconds,
// so it must be at least 1ms and a whole number of milliseconds.
func (r *report) checkDuration(at path, d *durationpb.Duration) {
	if d == nil {
		return
	}
	if d.CheckValid() == nil && d.AsDuration() == 0 {
		r.errorf(at, "must be at least 1ms")
		return
	}
	r.checkDurationOrZero(at, d)
}

// checkDurationOrZero reports an error unless d is a whole number of milliseconds. Unlike
// checkDuration it allows 0s, which disables a timeout, for instance. nil is not set and valid.
func (r *report) checkDurationOrZero(at path, d *durationpb.Duration) {
	if d == nil {
		return
	}
	switch v := d.AsDuration(); {
	case d.CheckValid() != nil || v == math.MaxInt64 || v == math.MinInt64:
		r.errorf(at, "is not a valid duration")
	case v < 0:
		r.errorf(at, "%s is negative", v)
	case v > 0 && v < time.Millisecond:
		r.errorf(at, "%s is less than 1ms", v)
	case v%time.Millisecond != 0:
		r.errorf(at, "%s is not a whole number of milliseconds", v)
	}
}
