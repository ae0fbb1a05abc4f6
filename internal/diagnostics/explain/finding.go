package explain

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// finding is the result of evaluating a condition, with a text about the part of the call that
// decided it.
type finding struct {
	ok  bool
	why string
	// miss is the distance of the call from fulfilling the condition, if ok is false. Policies with
	// a small distance are reported as near misses.
	miss int
}

// Distances of a call from a condition. A rule for another port is unlikely to be meant for the
// call, so its distance is large.
const (
	near                 = 1
	mismatchMethodOrPath = 2
	mismatchHost         = 3
	mismatchPort         = 4
)

// alwaysHolds returns the finding of a condition that always holds.
func alwaysHolds() finding { return finding{ok: true, why: "anything"} }

// not inverts a finding and keeps its reason. A finding that no longer holds has distance near.
func (f finding) not() finding {
	f.ok, f.miss = !f.ok, near
	return f
}

// maxReasons limits the number of reported reasons of alternatives.
const maxReasons = 3

// allOf evaluates conditions that must all hold, in order. It stops at the first error. If any do
// not hold, the result does not either, and has the reasons and the sum of the distances of all
// these. Their distances must be above 0. Otherwise, also for an empty list, it holds.
func allOf[T any](list []T, find func(T) (finding, error)) (finding, error) {
	held, broken := alwaysHolds(), finding{}
	for _, one := range list {
		f, err := find(one)
		switch {
		case err != nil:
			return f, err
		case f.ok:
			held = held.and(f)
		default:
			broken = finding{why: joinReasons(broken.why, f.why), miss: broken.miss + f.miss}
		}
	}
	if broken.miss > 0 {
		return broken, nil
	}
	return held, nil
}

// and returns the conjunction of two findings, which must both hold, with both reasons. It omits
// the reason of an unconditional one.
func (f finding) and(g finding) finding {
	switch alwaysHolds().why {
	case f.why:
		return g
	case g.why:
		return f
	}
	return finding{ok: true, why: joinReasons(f.why, g.why)}
}

// joinReasons joins two reasons by a comma. It returns b if a is empty.
func joinReasons(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// anyOf evaluates alternatives. It returns the first finding that holds, or the first error. If
// none holds, it returns the reasons of maxReasons alternatives, the number of the others, and the
// smallest distance, at least near. Without alternatives it does not hold.
func anyOf[T any](list []T, find func(T) (finding, error)) (finding, error) {
	var why []string
	miss := 0
	for _, one := range list {
		f, err := find(one)
		if err != nil || f.ok {
			return f, err
		}
		if miss == 0 || f.miss < miss {
			miss = f.miss
		}
		if len(why) < maxReasons {
			why = append(why, f.why)
		}
	}
	if len(list) > maxReasons {
		why = append(why, fmt.Sprintf("or %d more", len(list)-maxReasons))
	}
	return finding{why: strings.Join(why, " or "), miss: max(miss, near)}, nil
}

// newFinding returns a finding about a part of the call, such as "the caller", that holds if ok.
// value is the call's value and wanted the condition, such as "is GET"; both are in its text. On a
// mismatch its distance is near.
func newFinding(what, value, wanted string, ok bool) finding {
	switch {
	case ok && wanted == "is "+value:
		return finding{ok: true, why: what + " " + wanted}
	case ok:
		return finding{ok: true, why: what + " " + value + " " + wanted}
	}
	return finding{why: what + " is " + value + " (wanted: " + wanted + ")", miss: near}
}

// textFinding returns a finding that holds if a value matches m. what names the part of the call.
// It returns an error for an unsupported matcher.
func textFinding(what, value string, m *matcherv3.StringMatcher) (finding, error) {
	ok, err := stringMatches(m, value)
	if value == "" {
		value = "empty"
	}
	return newFinding(what, value, stringText(m), ok), err
}

// addressFinding returns a finding that holds if an address is in the range r. what names the part
// of the call.
func addressFinding(what string, a netip.Addr, r *corev3.CidrRange) finding {
	ok := longestPrefix([]*corev3.CidrRange{r}, a) > 0
	value := "not known"
	if a.IsValid() {
		value = a.String()
	}
	return newFinding(what, value, fmt.Sprintf("is in %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()), ok)
}

// portFinding returns a finding that holds if the destination port is between from and to. A
// mismatch has distance mismatchPort. Both ends are included.
func portFinding(port uint16, from, to uint32) finding {
	wanted := fmt.Sprintf("is %d", from)
	if to != from {
		wanted = fmt.Sprintf("is %d to %d", from, to)
	}
	f := newFinding("the port", fmt.Sprint(port), wanted, uint32(port) >= from && uint32(port) <= to)
	f.miss *= mismatchPort
	return f
}
