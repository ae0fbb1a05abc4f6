//go:build !linux

package readapi

import "time"

// cpuTime calls f and returns how long that took, which is an upper bound of its CPU time.
func cpuTime(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
