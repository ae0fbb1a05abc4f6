package config

// minPercent is the smallest share above 0 that proxies can apply: one in a million.
const minPercent = 0.0001

// checkPercent adds an Error if a share of requests is not between 0 and 100, or is below
// minPercent and not 0.
func (r *report) checkPercent(at path, value float64) {
	if !(value >= 0 && value <= 100) { // also refuses NaN
		r.errorf(at, "%g is not in the range 0..100", value)
	} else if value > 0 && value < minPercent {
		r.errorf(at, "%g is smaller than the smallest share that can be applied, %g", value, minPercent)
	}
}

// checkNonNegative adds an Error for a negative count. 0 selects the default.
func (r *report) checkNonNegative(at path, value int32) {
	if value < 0 {
		r.errorf(at, "%d is negative", value)
	}
}
