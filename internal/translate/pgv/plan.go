package pgv

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// plan has the compiled rules of a message type.
type plan struct {
	name     string      // the name of the Go type, without its package
	fields   []fieldPlan // fields outside of oneofs
	oneofs   []oneofPlan
	optional []fieldPlan // fields declared optional: checked only if they are set
	// unknown lists rules that are not implemented and are not checked.
	unknown []string
}

// oneofPlan has the rules of the fields of a oneof, by their numbers.
type oneofPlan struct {
	oneof    protoreflect.OneofDescriptor
	name     string
	required bool
	fields   map[protoreflect.FieldNumber]*fieldPlan
}

// fieldPlan has the rules of a field: of its value, or of the elements of a list or map.
type fieldPlan struct {
	field       protoreflect.FieldDescriptor
	name        string // the name of the field of the Go struct
	value       valuePlan
	keys        valuePlan // of a map
	size        sizeRule  // of a list or map
	unique      bool      // the elements of the list must differ
	ignoreEmpty bool      // an empty list or map is valid
	onlyIfSet   bool      // there is no rule for an unset message
}

// valuePlan has the rules of a single value.
type valuePlan struct {
	required    string                       // the reason why a message that is not there is invalid, or ""
	wrapped     protoreflect.FieldDescriptor // the field of a wrapper message that the rules are for
	duration    bool                         // the checks receive a google.protobuf.Duration as int64
	ignoreEmpty bool                         // a zero value is valid
	embedded    bool                         // the rules of the message's own type are checked
	checks      []check
}

// check returns the reason why a value is invalid, or "".
type check func(protoreflect.Value) string

// isEmpty reports whether there are no rules for the value. ignoreEmpty alone is no rule.
func (p *valuePlan) isEmpty() bool {
	return p.required == "" && !p.embedded && !p.duration && len(p.checks) == 0
}

// plans caches the plan of each message type, by its protoreflect.MessageDescriptor.
var plans sync.Map

// planFor returns the compiled rules of a message type. They are compiled at the first call for a
// type and shared by all later calls.
func planFor(d protoreflect.MessageDescriptor) *plan {
	if p, ok := plans.Load(d); ok {
		return p.(*plan) //nolint:forcetypeassert // only plans are stored
	}
	p, _ := plans.LoadOrStore(d, compile(d))
	return p.(*plan) //nolint:forcetypeassert // only plans are stored
}

// compile returns the rules of a message type: of its fields, optional fields and oneofs. Fields
// without rules are left out, except in oneofs. A type with the option disabled or ignored has no
// rules. Rules that are not implemented are skipped and recorded in unknown.
func compile(d protoreflect.MessageDescriptor) *plan {
	p := &plan{name: goName(d)}
	if hasOption(d, validate.E_Disabled) || hasOption(d, validate.E_Ignored) {
		return p
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		switch o := f.ContainingOneof(); {
		case o == nil:
			if c := p.compileField(f); c != nil {
				p.fields = append(p.fields, *c)
			}
		case o.IsSynthetic():
			if c := p.compileField(f); c != nil {
				p.optional = append(p.optional, *c)
			}
		}
	}
	for i := range d.Oneofs().Len() {
		if o := d.Oneofs().Get(i); !o.IsSynthetic() {
			p.oneofs = append(p.oneofs, p.compileOneof(o))
		}
	}
	return p
}

// compileOneof returns the rules of a oneof and of each of its fields; a field without rules has an
// empty fieldPlan.
func (p *plan) compileOneof(o protoreflect.OneofDescriptor) oneofPlan {
	out := oneofPlan{
		oneof:    o,
		name:     camelCase(string(o.Name())),
		required: hasOption(o, validate.E_Required),
		fields:   map[protoreflect.FieldNumber]*fieldPlan{},
	}
	for i := range o.Fields().Len() {
		f := o.Fields().Get(i)
		if c := p.compileField(f); c != nil {
			out.fields[f.Number()] = c
		} else {
			out.fields[f.Number()] = &fieldPlan{field: f}
		}
	}
	return out
}

// compileField returns the rules of a field, or nil if it has none. It adds rules that are not
// implemented to p.unknown.
func (p *plan) compileField(f protoreflect.FieldDescriptor) *fieldPlan {
	rules, _ := proto.GetExtension(f.Options(), validate.E_Rules).(*validate.FieldRules)
	c := &fieldPlan{field: f, name: camelCase(string(f.Name()))}
	in := compiler{name: string(f.FullName())}
	switch {
	case f.IsMap():
		r := cmp.Or(rules.GetMap(), &validate.MapRules{})
		c.size = sizeRule{minimum: r.GetMinPairs(), maximum: r.MaxPairs, unit: "pair(s)", units: "pairs"}
		c.ignoreEmpty = r.GetIgnoreEmpty()
		c.keys = in.compileValue(f.MapKey(), r.GetKeys())
		c.value = in.compileValue(f.MapValue(), r.GetValues())
		in.expect(rules, "map", "message")
		in.expect(r, "min_pairs", "max_pairs", "ignore_empty", "keys", "values", "no_sparse")
	case f.IsList():
		r := cmp.Or(rules.GetRepeated(), &validate.RepeatedRules{})
		c.size = sizeRule{minimum: r.GetMinItems(), maximum: r.MaxItems, unit: "item(s)", units: "items"}
		c.ignoreEmpty, c.unique = r.GetIgnoreEmpty(), r.GetUnique()
		c.value = in.compileValue(f, r.GetItems())
		in.expect(rules, "repeated", "message")
		in.expect(r, "min_items", "max_items", "ignore_empty", "unique", "items")
	default:
		c.value = in.compileValue(f, rules)
		c.onlyIfSet = f.Message() != nil && c.value.required == ""
	}
	p.unknown = append(p.unknown, in.unknown...)
	if c.keys.isEmpty() && c.value.isEmpty() && c.size.isEmpty() && !c.unique {
		return nil
	}
	return c
}

// hasOption reports whether a boolean option of a message type or oneof is set.
func hasOption(d protoreflect.Descriptor, option protoreflect.ExtensionType) bool {
	set, _ := proto.GetExtension(d.Options(), option).(bool)
	return set
}

// goName returns the name of the Go type of a message, such as Listener_ConnectionBalanceConfig.
func goName(d protoreflect.MessageDescriptor) string {
	name := camelCase(string(d.Name()))
	if outer, nested := d.Parent().(protoreflect.MessageDescriptor); nested {
		return goName(outer) + "_" + name
	}
	return name
}

// camelCase returns the name of the Go field for a field name. The first letter, and a letter after
// an underscore or a digit, is a capital. Underscores before letters are removed.
func camelCase(name string) string {
	var b strings.Builder
	upper := true
	for i := range len(name) {
		c := name[i]
		lower := 'a' <= c && c <= 'z'
		switch {
		case c == '_' && i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z':
			upper = true
			continue
		case lower && upper:
			c -= 'a' - 'A'
		}
		b.WriteByte(c)
		upper = c == '_' || '0' <= c && c <= '9'
	}
	return b.String()
}

// sizeRule limits the number of elements of a list or map.
type sizeRule struct {
	minimum     uint64
	maximum     *uint64 // no limit if nil
	unit, units string
}

// isEmpty reports whether any number is permitted.
func (s sizeRule) isEmpty() bool { return s.minimum == 0 && s.maximum == nil }

// check returns the reason why a number of elements is invalid, below the minimum or above the
// maximum, in the words of the generated code. It returns "" if the number is valid.
func (s sizeRule) check(count int) string {
	tooFew := uint64(count) < s.minimum
	tooMany := s.maximum != nil && uint64(count) > *s.maximum
	switch {
	case !tooFew && !tooMany:
		return ""
	case s.maximum == nil:
		return fmt.Sprintf("value must contain at least %d %s", s.minimum, s.unit)
	case s.minimum == 0:
		return fmt.Sprintf("value must contain no more than %d %s", *s.maximum, s.unit)
	case s.minimum == *s.maximum:
		return fmt.Sprintf("value must contain exactly %d %s", s.minimum, s.unit)
	}
	return fmt.Sprintf("value must contain between %d and %d %s, inclusive", s.minimum, *s.maximum, s.units)
}
