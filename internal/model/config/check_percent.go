package config

// minPercent is the smallest share above 0 that proxies can apply: one in a million.
const minPercent = 0.0001

// checkPercent checks that a share of requests is between 0 and 100, and not below minPercent
// unless it is 0.
func (r *report) checkPercent(at path, value float64) {
	if !(value >= 0 && value <= 100) { // also refuses NaN
		r.errorf(at, "%g is not in the range 0..100", value)
	} else if value > 0 && value < minPercent {
		r.errorf(at, "%g is smaller than the smallest share that can be applied, %g", value, minPercent)
	}
}

// checkNonNegative reports a negative count. 0 selects the default.
func (r *report) checkNonNegative(at path, value int32) {
	if value < 0 {
		r.errorf(at, "%d is negative", value)
	}
}
