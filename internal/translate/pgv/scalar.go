package pgv

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// compiler compiles the rules of one field, and collects the rules that are not implemented.
type compiler struct {
	name    string // the field's full name
	unknown []string
}

// expect adds to c.unknown the fields that are set in rules, which may be nil, and are not among
// names.
func (c *compiler) expect(rules proto.Message, names ...protoreflect.Name) {
	rules.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(names, f.Name()) {
			c.unknown = append(c.unknown, fmt.Sprintf("%s: %s", c.name, f.FullName()))
		}
		return true
	})
}

// compileValue compiles the rules of a value of field f: the rules of the field, or, for a list, of
// its elements. rules may be nil. Rules that are not supported are skipped and recorded in
// c.unknown (expect).
func (c *compiler) compileValue(f protoreflect.FieldDescriptor, rules *validate.FieldRules) valuePlan {
	c.expect(rules.GetMessage(), "required", "skip")
	switch r := rules.GetType().(type) {
	case nil:
		return compileMessage(f.Message(), rules.GetMessage())
	case *validate.FieldRules_Any:
		c.expect(r.Any, "required")
		return valuePlan{required: requiredReason(r.Any.GetRequired())}
	case *validate.FieldRules_Timestamp:
		c.expect(r.Timestamp, "required")
		return valuePlan{required: requiredReason(r.Timestamp.GetRequired())}
	case *validate.FieldRules_Duration:
		c.expect(r.Duration, "required", "lt", "lte", "gt", "gte")
		p := valuePlan{required: requiredReason(r.Duration.GetRequired()), checks: compileRange(r.Duration)}
		p.duration = len(p.checks) > 0
		return p
	}
	p := c.compileScalar(f, rules)
	if wrapper := f.Message(); wrapper != nil {
		p.wrapped = wrapper.Fields().ByNumber(1)
		if rules.GetMessage().GetRequired() {
			p.required = "value is required and must not be nil."
		}
	}
	return p
}

// compileMessage returns the rules of a message. type is nil for a value that is not a message. The
// types of the protobuf library have no rules of their own.
func compileMessage(typ protoreflect.MessageDescriptor, rules *validate.MessageRules) valuePlan {
	if typ == nil {
		return valuePlan{}
	}
	return valuePlan{
		required: requiredReason(rules.GetRequired()),
		embedded: !rules.GetSkip() && typ.ParentFile().Package() != "google.protobuf",
	}
}

// requiredReason returns the reason why a message that is not there is invalid, or "" if required
// is false.
func requiredReason(required bool) string {
	if required {
		return "value is required"
	}
	return ""
}

// compileScalar compiles the rules of a value that is not a message, or of the value in a wrapper.
// Rules that are not supported are skipped and recorded in c.unknown (expect).
func (c *compiler) compileScalar(f protoreflect.FieldDescriptor, rules *validate.FieldRules) valuePlan {
	switch r := rules.GetType().(type) {
	case *validate.FieldRules_String_:
		return valuePlan{ignoreEmpty: r.String_.GetIgnoreEmpty(), checks: c.compileString(r.String_)}
	case *validate.FieldRules_Bytes:
		c.expect(r.Bytes, "len", "min_len", "max_len", "ignore_empty")
		return valuePlan{
			ignoreEmpty: r.Bytes.GetIgnoreEmpty(),
			checks:      compileLength(r.Bytes.Len, r.Bytes.MinLen, r.Bytes.MaxLen, "bytes", countBytes),
		}
	case *validate.FieldRules_Bool:
		c.expect(r.Bool, "const")
		return valuePlan{checks: compileConst(r.Bool, nil)}
	case *validate.FieldRules_Enum:
		c.expect(r.Enum, "const", "in", "not_in", "defined_only")
		return valuePlan{checks: compileEnum(f.Enum(), r.Enum)}
	}
	m := rules.ProtoReflect()
	number := m.Get(m.WhichOneof(m.Descriptor().Oneofs().ByName("type"))).Message().Interface()
	c.expect(number, "const", "in", "not_in", "lt", "lte", "gt", "gte", "ignore_empty")
	ignore, _ := ruleValue(number, "ignore_empty")
	return valuePlan{
		ignoreEmpty: ignore.IsValid() && ignore.Bool(),
		checks:      slices.Concat(compileConst(number, nil), compileRange(number), compileIn(number, nil)),
	}
}

// compileString returns the checks of a string, in the order of the generated code. Rules that are
// not supported and an invalid pattern are skipped and recorded in c.unknown.
func (c *compiler) compileString(r *validate.StringRules) []check {
	c.expect(r, "const", "in", "not_in", "len", "min_len", "max_len", "len_bytes", "min_bytes", "max_bytes", "prefix",
		"suffix", "contains", "not_contains", "pattern", "well_known_regex", "strict", "ignore_empty")
	checks := slices.Concat(
		compileConst(r, nil),
		compileIn(r, nil),
		compileLength(r.Len, r.MinLen, r.MaxLen, "runes", countRunes),
		compileLength(r.LenBytes, r.MinBytes, r.MaxBytes, "bytes", countBytes),
		compileAffix(r.Prefix, "value does not have prefix", strings.HasPrefix),
		compileAffix(r.Suffix, "value does not have suffix", strings.HasSuffix),
		compileAffix(r.Contains, "value does not contain substring", strings.Contains),
		compileAffix(r.NotContains, "value contains substring", func(s, part string) bool {
			return !strings.Contains(s, part)
		}),
	)
	pattern := stringPattern(r)
	if pattern == "" {
		return checks
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		c.unknown = append(c.unknown, fmt.Sprintf("%s: %v", c.name, err))
		return checks
	}
	return append(checks, func(v protoreflect.Value) string {
		if expression.MatchString(v.String()) {
			return ""
		}
		return fmt.Sprintf("value does not match regex pattern %q", pattern)
	})
}

// stringPattern returns the regular expression that a string must match, or "" for none. A
// well_known_regex (header names and values) takes precedence over pattern; if strict is false,
// which is not the default, it excludes only NUL and line ends.
func stringPattern(r *validate.StringRules) string {
	switch known := r.GetWellKnownRegex(); {
	case known == validate.KnownRegex_UNKNOWN:
		return r.GetPattern()
	case !r.GetStrict():
		return "^[^\u0000\u000A\u000D]*$"
	case known == validate.KnownRegex_HTTP_HEADER_NAME:
		return "^:?[0-9a-zA-Z!#$%&'*+-.^_|~\x60]+$"
	}
	return "^[^\u0000-\u0008\u000A-\u001F\u007F]*$"
}

// compileAffix returns the check that a string has part, as decided by has, or none if part is nil.
// The check returns reason and part otherwise.
func compileAffix(part *string, reason string, has func(s, part string) bool) []check {
	if part == nil {
		return nil
	}
	return []check{func(v protoreflect.Value) string {
		if has(v.String(), *part) {
			return ""
		}
		return fmt.Sprintf("%s %q", reason, *part)
	}}
}

// countRunes returns the number of characters of a string.
func countRunes(v protoreflect.Value) uint64 { return uint64(utf8.RuneCountInString(v.String())) }

// countBytes returns the length of a string or of bytes.
func countBytes(v protoreflect.Value) uint64 {
	if b, ok := v.Interface().([]byte); ok {
		return uint64(len(b))
	}
	return uint64(len(v.String()))
}

// compileLength returns the check of a length as counted by count, or none if there is no limit.
// exact overrides minimum and maximum.
func compileLength(
	exact, minimum, maximum *uint64, unit string, count func(protoreflect.Value) uint64,
) []check {
	var reason string
	switch {
	case exact != nil:
		minimum, maximum = exact, exact
		reason = fmt.Sprintf("value length must be %d %s", *exact, unit)
	case minimum == nil && maximum == nil:
		return nil
	case maximum == nil:
		reason = fmt.Sprintf("value length must be at least %d %s", *minimum, unit)
	case minimum == nil:
		reason = fmt.Sprintf("value length must be at most %d %s", *maximum, unit)
	case *minimum == *maximum:
		reason = fmt.Sprintf("value length must be %d %s", *minimum, unit)
	default:
		reason = fmt.Sprintf("value length must be between %d and %d %s, inclusive", *minimum, *maximum, unit)
	}
	return []check{func(v protoreflect.Value) string {
		if n := count(v); minimum != nil && n < *minimum || maximum != nil && n > *maximum {
			return reason
		}
		return ""
	}}
}

// compileEnum returns the checks of an enum's value: const, in, not_in, and defined_only.
func compileEnum(enum protoreflect.EnumDescriptor, r *validate.EnumRules) []check {
	checks := slices.Concat(compileConst(r, enum), compileIn(r, enum))
	if !r.GetDefinedOnly() {
		return checks
	}
	return append(checks, func(v protoreflect.Value) string {
		if enum.Values().ByNumber(v.Enum()) == nil {
			return "value must be one of the defined enum values"
		}
		return ""
	})
}

// isZero reports whether a scalar value is its type's zero value; bytes are zero if they are empty.
func isZero(v protoreflect.Value) bool {
	switch x := v.Interface().(type) {
	case string:
		return x == ""
	case []byte:
		return len(x) == 0
	}
	return reflect.ValueOf(v.Interface()).IsZero()
}
