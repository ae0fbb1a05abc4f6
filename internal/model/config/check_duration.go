package config

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// checkDuration adds an Error unless d is nil or a whole number of milliseconds of at least 1ms:
// proxies count in milliseconds.
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

// checkDurationOrZero adds an Error unless d is nil, 0s or a whole number of milliseconds of at
// least 1ms. Unlike checkDuration it allows 0s, which disables a timeout, for instance.
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
