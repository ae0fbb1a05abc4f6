package explain

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// finding says whether a condition holds for a call, and by what of the call.
type finding struct {
	ok  bool
	why string
	// miss says how far from holding it is, where it does not: the rules that nearly fit a call are the ones to tell of.
	miss int
}

// How far off a call is that does not fit a condition: a rule for another port is hardly meant for it.
const (
	near     = 1
	elsewhat = 2
	elsehost = 3
	elseport = 4
)

// everything is the finding of a condition that always holds.
func everything() finding { return finding{ok: true, why: "anything"} }

// not turns a finding around: what excludes a call is why it does not fit, and the other way round.
func (f finding) not() finding {
	f.ok, f.miss = !f.ok, near
	return f
}

// maxReasons is how many reasons of alternatives are told.
const maxReasons = 3

// allOf joins conditions that must all hold: all that do not are the reason.
func allOf[T any](list []T, find func(T) (finding, error)) (finding, error) {
	held, broken := everything(), finding{}
	for _, one := range list {
		f, err := find(one)
		switch {
		case err != nil:
			return f, err
		case f.ok:
			held = held.and(f)
		default:
			broken = finding{why: joined(broken.why, f.why), miss: broken.miss + f.miss}
		}
	}
	if broken.miss > 0 {
		return broken, nil
	}
	return held, nil
}

// and joins two conditions that hold.
func (f finding) and(g finding) finding {
	switch everything().why {
	case f.why:
		return g
	case g.why:
		return f
	}
	return finding{ok: true, why: joined(f.why, g.why)}
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// anyOf joins conditions of which one must hold: the first that does is the reason, or else all that do not.
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

// found says of a part of a call, like "the caller", what it is and how that compares with what is wanted.
func found(what, value, wanted string, ok bool) finding {
	switch {
	case ok && wanted == "is "+value:
		return finding{ok: true, why: what + " " + wanted}
	case ok:
		return finding{ok: true, why: what + " " + value + " " + wanted}
	}
	return finding{why: what + " is " + value + " (wanted: " + wanted + ")", miss: near}
}

// textFinding compares a text.
func textFinding(what, value string, m *matcherv3.StringMatcher) (finding, error) {
	ok, err := stringMatches(m, value)
	if value == "" {
		value = "empty"
	}
	return found(what, value, stringText(m), ok), err
}

// addressFinding compares an address with a range.
func addressFinding(what string, a netip.Addr, r *corev3.CidrRange) finding {
	ok := longestPrefix([]*corev3.CidrRange{r}, a) > 0
	value := "not known"
	if a.IsValid() {
		value = a.String()
	}
	return found(what, value, fmt.Sprintf("is in %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()), ok)
}

// portFinding compares the port that a call is to.
func portFinding(port uint16, from, to uint32) finding {
	wanted := fmt.Sprintf("is %d", from)
	if to != from {
		wanted = fmt.Sprintf("is %d to %d", from, to)
	}
	f := found("the port", fmt.Sprint(port), wanted, uint32(port) >= from && uint32(port) <= to)
	f.miss *= elseport
	return f
}
