package check

import (
	"context"
	"fmt"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Skip means that the check could not be made.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Result is one line of the report.
type Result struct {
	Category string `json:"category"`
	// Check is the condition that was checked.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Detail describes the result, and Hint the remedy; both may be empty for Pass.
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// outcome is what a check has found.
type outcome struct {
	status Status
	detail string
}

// pass returns an outcome with the status Pass and a formatted detail.
func pass(format string, args ...any) outcome { return outcome{Pass, fmt.Sprintf(format, args...)} }

// warn returns an outcome with the status Warn and a formatted detail.
func warn(format string, args ...any) outcome { return outcome{Warn, fmt.Sprintf(format, args...)} }

// fail returns an outcome with the status Fail and a formatted detail.
func fail(format string, args ...any) outcome { return outcome{Fail, fmt.Sprintf(format, args...)} }

// skip returns an outcome with the status Skip and a formatted detail.
func skip(format string, args ...any) outcome { return outcome{Skip, fmt.Sprintf(format, args...)} }

// check is one line of a table of checks.
type check struct {
	category, condition, hint string
	run                       func(ctx context.Context, t *Target) outcome
	// required skips the later checks of the category if this one fails; all skips all later
	// checks.
	required, all bool
}

// Run makes the checks that Pre selects, or else Proxy, by default the checks of a running mesh,
// each within Timeout, which must be positive. It returns their results in order. After a required
// check has failed, the later ones of its category, or of all categories, are skipped.
func (t *Target) Run(ctx context.Context) []Result {
	list := t.healthChecks()
	switch {
	case t.Pre:
		list = t.preChecks()
	case t.Proxy != "":
		list = t.proxyChecks()
	}
	return t.runAll(ctx, list)
}

// runAll makes the checks of a table in order. After a failed check that is required, the rest of
// its category is skipped, and after one with all set, the rest of the table. Only failures and
// warnings have a hint.
func (t *Target) runAll(ctx context.Context, list []check) []Result {
	var results []Result
	blocked := map[string]string{} // the failed condition by category; "" is every category
	for _, c := range list {
		r := Result{Category: c.category, Check: c.condition}
		reason := blocked[c.category]
		if reason == "" {
			reason = blocked[""]
		}
		var o outcome
		if reason != "" {
			o = skip("not checked, because this failed: %s", reason)
		} else {
			o = t.runOne(ctx, c)
		}
		r.Status, r.Detail = o.status, o.detail
		if o.status == Fail || o.status == Warn {
			r.Hint = c.hint
		}
		if o.status == Fail && c.required {
			blocked[c.category] = c.condition
		}
		if o.status == Fail && c.all {
			blocked[""] = c.condition
		}
		results = append(results, r)
	}
	return results
}

// runOne makes one check. Its context ends after Timeout.
func (t *Target) runOne(ctx context.Context, c check) outcome {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return c.run(ctx, t)
}

// Count returns the number of results with the status.
func Count(list []Result, status Status) (n int) {
	for _, r := range list {
		if r.Status == status {
			n++
		}
	}
	return n
}
