package recovery

import (
	"bytes"
	"sync"
	"time"
)

const (
	// logPeriod is the period in which one place in the code may log one stack and maxLogged
	// panics.
	logPeriod = time.Minute
	maxLogged = 10
	// maxSites bounds the number of tracked places. Beyond it, all others share one entry.
	maxSites = 256
)

// logLimiter limits what panics write to the log, because a client that can cause one may cause
// thousands a second.
type logLimiter struct {
	now func() time.Time

	mu    sync.Mutex
	sites map[string]*siteLog
}

// siteLog counts what one place in the code has logged in its current period.
type siteLog struct {
	began              time.Time
	logged, suppressed int
}

// newLogLimiter returns a logLimiter without sites. If now is nil, it is time.Now.
func newLogLimiter(now func() time.Time) *logLimiter {
	if now == nil {
		now = time.Now
	}
	return &logLimiter{now: now, sites: map[string]*siteLog{}}
}

// allow reports whether a panic at a site may be logged, at most maxLogged in logPeriod, and
// whether with its stack, which only the first has. suppressed is how many were not logged in the
// site's previous period. Beyond maxSites all others share a site.
func (l *logLimiter) allow(site string) (stack bool, suppressed int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sites[site]
	if s == nil && len(l.sites) >= maxSites {
		site = "others"
		s = l.sites[site]
	}
	if s == nil {
		s = &siteLog{}
		l.sites[site] = s
	}
	if now := l.now(); s.logged == 0 || now.Sub(s.began) >= logPeriod {
		suppressed = s.suppressed
		*s = siteLog{began: now, logged: 1}
		return true, suppressed, true
	}
	if s.logged >= maxLogged {
		s.suppressed++
		return false, 0, false
	}
	s.logged++
	return false, 0, true
}

// panicSite returns the source line that panicked, as FILE:LINE: the first frame below the call of
// panic that is not the runtime's. It returns "unknown" if there is none. Of a panic that was
// raised again it is the original line.
func panicSite(stack []byte) string {
	lines := bytes.Split(stack, []byte("\n"))
	at := -1
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte("panic(")) {
			at = i // the last one: a panic may have been raised again by a deferred function
		}
	}
	for i := at + 2; at >= 0 && i+1 < len(lines); i += 2 {
		if !bytes.HasPrefix(lines[i], []byte("runtime.")) {
			where, _, _ := bytes.Cut(bytes.TrimSpace(lines[i+1]), []byte(" "))
			return string(where)
		}
	}
	return "unknown"
}
