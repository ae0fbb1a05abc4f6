package readapi

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime calls f and returns the CPU time that its goroutine has used. Unlike the duration of the
// call, it does not grow when the machine is busy. Goroutines that f starts are not included.
func cpuTime(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	f()
	return threadTime() - before
}

// threadTime returns the CPU time that the present thread has used, or 0 if the kernel does not
// report it.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
