package config

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// duration checks a duration that must be positive if it is there: at least 1 ms, and whole milliseconds, as proxies
// count them.
func (r *report) duration(at path, d *durationpb.Duration) {
	if d == nil {
		return
	}
	if d.CheckValid() == nil && d.AsDuration() == 0 {
		r.errorf(at, "must be at least 1ms")
		return
	}
	r.durationOrZero(at, d)
}

// durationOrZero is duration for fields where 0s has a meaning, such as switching a timeout off.
func (r *report) durationOrZero(at path, d *durationpb.Duration) {
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
