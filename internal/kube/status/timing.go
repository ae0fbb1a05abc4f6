package status

import "time"

// Timing configures the delays and intervals of status writes.
type Timing struct {
	// SettleDelay is how long an object may take to reach all proxies before its condition becomes
	// Unknown. Most objects take less, and so are written once.
	SettleDelay time.Duration
	// CountInterval is the interval of counting proxies for objects being distributed, and
	// SlowCountInterval the interval once that takes longer than SlowAfter.
	CountInterval, SlowCountInterval, SlowAfter time.Duration
	// ProgressInterval is the minimum time between updates of an object's progress.
	ProgressInterval time.Duration
	// ReportTimeout is how long the leader waits for a replica's report about an object. A replica
	// that has not reported by then is gone, or distributed the object long ago.
	ReportTimeout time.Duration
	// ReportInterval is how often a replica repeats its report while objects are being distributed.
	// A replica that is silent for three times as long is considered gone.
	ReportInterval time.Duration
	// FirstReportDelay is the time from the start to the first report. A single replica leads by
	// then and needs no report.
	FirstReportDelay time.Duration
	// RetryDelay is the time until a failed write is retried.
	RetryDelay time.Duration
}

// DefaultTiming returns the delays for production, from 1 s (CountInterval) to 1 min (SlowAfter).
func DefaultTiming() Timing {
	return Timing{
		SettleDelay:       2 * time.Second,
		CountInterval:     time.Second,
		SlowCountInterval: 10 * time.Second,
		SlowAfter:         time.Minute,
		ProgressInterval:  5 * time.Second,
		ReportTimeout:     5 * time.Second,
		ReportInterval:    5 * time.Second,
		FirstReportDelay:  2 * time.Second,
		RetryDelay:        5 * time.Second,
	}
}

// reportExpiry returns the age from which an incomplete report is ignored. That is three report
// intervals.
func (p Timing) reportExpiry() time.Duration { return 3 * p.ReportInterval }
