package differential

import "regexp"

// difference is one that is on purpose: facts whose name matches are different for the reason.
type difference struct {
	fact   *regexp.Regexp
	reason string
}

// differences lists the differences that this corpus shows. docs/adr/0007 has all others.
func differences() []difference {
	return []difference{{
		fact:   regexp.MustCompile(`kubernetes\.default\.svc|^listener 10\.96\.0\.1:443`),
		reason: "istiod does not start without an API server, and serves that server's own Service",
	}}
}

// listed returns the reason of a difference, "" for one that is not listed.
func listed(fact string) string {
	for _, d := range differences() {
		if d.fact.MatchString(fact) {
			return d.reason
		}
	}
	return ""
}
