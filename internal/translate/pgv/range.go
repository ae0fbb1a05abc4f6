package pgv

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ruleValue returns the value of a rule, by its name in rules, and whether it is set.
func ruleValue(rules proto.Message, name protoreflect.Name) (protoreflect.Value, bool) {
	m := rules.ProtoReflect()
	f := m.Descriptor().Fields().ByName(name)
	if f == nil || !m.Has(f) {
		return protoreflect.Value{}, false
	}
	return m.Get(f), true
}

// ruleText returns the text of a value in rules. If enum is not nil, the value is a number of that
// enum, and the text is its name, or "" if the number is unknown.
func ruleText(v protoreflect.Value, enum protoreflect.EnumDescriptor) string {
	if enum == nil {
		return fmt.Sprint(v.Interface())
	}
	if defined := enum.Values().ByNumber(protoreflect.EnumNumber(v.Int())); defined != nil {
		return string(defined.Name())
	}
	return ""
}

// equal reports whether a value equals the value in a rule. Rules have the values of enums as
// numbers.
func equal(v, rule protoreflect.Value) bool {
	if n, ok := v.Interface().(protoreflect.EnumNumber); ok {
		return int64(n) == rule.Int()
	}
	return v.Equal(rule)
}

// compileConst returns the check that a value equals the rule const, or nil if that rule is not
// set.
func compileConst(rules proto.Message, enum protoreflect.EnumDescriptor) []check {
	want, ok := ruleValue(rules, "const")
	if !ok {
		return nil
	}
	reason := "value must equal " + ruleText(want, enum)
	return []check{func(v protoreflect.Value) string {
		if equal(v, want) {
			return ""
		}
		return reason
	}}
}

// compileIn returns the checks of the rules in and not_in, none for a rule that is not set. enum is
// nil if the values are not an enum's.
func compileIn(rules proto.Message, enum protoreflect.EnumDescriptor) []check {
	var checks []check
	for _, r := range []struct {
		rule    protoreflect.Name
		allowed bool
		reason  string
	}{
		{"in", true, "value must be in list"},
		{"not_in", false, "value must not be in list"},
	} {
		values, ok := ruleValue(rules, r.rule)
		if !ok {
			continue
		}
		list := values.List()
		texts := make([]string, list.Len())
		for i := range texts {
			texts[i] = ruleText(list.Get(i), enum)
		}
		reason := r.reason + " [" + strings.Join(texts, " ") + "]"
		checks = append(checks, func(v protoreflect.Value) string {
			if contains(list, v) != r.allowed {
				return reason
			}
			return ""
		})
	}
	return checks
}

// contains reports whether a value is in the list of a rule.
func contains(list protoreflect.List, v protoreflect.Value) bool {
	for i := range list.Len() {
		if equal(v, list.Get(i)) {
			return true
		}
	}
	return false
}

// bound is a limit of a range.
type bound struct {
	set       bool
	inclusive bool
	value     any // as protoreflect.Value.Interface returns it; nanoseconds for durations
	text      string
}

// compileBound returns the bound of the first of two rules, which excludes the limit, or else of
// the second, which includes it. If neither is set, it returns the zero bound.
func compileBound(rules proto.Message, exclusive, inclusive protoreflect.Name) bound {
	v, ok := ruleValue(rules, exclusive)
	b := bound{set: ok}
	if !ok {
		v, ok = ruleValue(rules, inclusive)
		b.set, b.inclusive = ok, ok
	}
	if !ok {
		return bound{}
	}
	if m, isMessage := v.Interface().(protoreflect.Message); isMessage {
		d, _ := asDuration(m) // Limits in rules are valid durations.
		b.value, b.text = int64(d), d.String()
		return b
	}
	b.value, b.text = v.Interface(), fmt.Sprint(v.Interface())
	return b
}

// compileRange returns the check of the rules lt, lte, gt and gte, or none if none is set. If the
// upper limit is not above the lower one, the values between them are invalid.
func compileRange(rules proto.Message) []check {
	lower, upper := compileBound(rules, "gt", "gte"), compileBound(rules, "lt", "lte")
	tooLow := func(v any) bool { return less(v, lower.value) || !lower.inclusive && v == lower.value }
	tooHigh := func(v any) bool { return less(upper.value, v) || !upper.inclusive && v == upper.value }
	switch {
	case lower.set && upper.set && less(lower.value, upper.value):
		reason := fmt.Sprintf("value must be inside range %s%s, %s%s",
			choose(lower.inclusive, "[", "("), lower.text, upper.text, choose(upper.inclusive, "]", ")"))
		return refuseIf(reason, func(v any) bool { return tooLow(v) || tooHigh(v) })
	case lower.set && upper.set:
		reason := fmt.Sprintf("value must be outside range %s%s, %s%s",
			choose(upper.inclusive, "(", "["), upper.text, lower.text, choose(lower.inclusive, ")", "]"))
		return refuseIf(reason, func(v any) bool { return tooLow(v) && tooHigh(v) })
	case upper.set:
		return refuseIf("value must be less than "+choose(upper.inclusive, "or equal to ", "")+upper.text, tooHigh)
	case lower.set:
		return refuseIf("value must be greater than "+choose(lower.inclusive, "or equal to ", "")+lower.text, tooLow)
	}
	return nil
}

// choose returns yes if a bound is inclusive, else no.
func choose(inclusive bool, yes, no string) string {
	if inclusive {
		return yes
	}
	return no
}

// refuseIf returns one check, which returns reason for values for which invalid returns true, and
// otherwise "".
func refuseIf(reason string, invalid func(any) bool) []check {
	return []check{func(v protoreflect.Value) string {
		if invalid(v.Interface()) {
			return reason
		}
		return ""
	}}
}

// less reports whether a number is less than another one of the same type. It returns false if one
// is NaN, if the types differ, and for all other types.
func less(a, b any) bool {
	switch x := a.(type) {
	case int32:
		y, ok := b.(int32)
		return ok && x < y
	case int64:
		y, ok := b.(int64)
		return ok && x < y
	case uint32:
		y, ok := b.(uint32)
		return ok && x < y
	case uint64:
		y, ok := b.(uint64)
		return ok && x < y
	case float32:
		y, ok := b.(float32)
		return ok && x < y
	case float64:
		y, ok := b.(float64)
		return ok && x < y
	}
	return false
}

// asDuration returns the value of m, a google.protobuf.Duration, and an error if it is invalid or
// out of range.
func asDuration(m protoreflect.Message) (time.Duration, error) {
	d, _ := m.Interface().(*durationpb.Duration)
	return d.AsDuration(), d.CheckValid()
}
